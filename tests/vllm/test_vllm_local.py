"""vLLM in this process: beside the transformers engine, and through new weights."""

import peft
import pytest
import torch
from vllm_rollouts import TOKENS, answers, assert_same, beside, changed, collect, requests

from ragen_agents.engines import EngineError, TokenRequest
from ragen_agents.engines.vllm import engine as vllm_engine
from ragen_agents.engines.vllm.engine import VllmEngine
from ragen_agents.engines.weights import named_weights


@pytest.fixture
def engine(local, starter, codec):
    """The engine with the starter's own weights."""
    ours = VllmEngine(local, codec.stop_token_ids, TOKENS)
    ours.sync(starter, 0)
    return ours


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_greedy_trajectories_are_those_of_the_transformers_engine(engine, starter, codec, game):
    found = collect(engine, codec, game, 0.0)
    assert_same(found, collect(beside(starter, codec), codec, game, 0.0))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_the_trainers(engine, starter, codec, temperature):
    asked = requests(codec, range(12), temperature)
    found = answers(engine, asked)
    assert {completion.finish for completion in found.values()} == {"stop", "length"}
    for request in asked:
        reply = found[request.key]
        assert (reply.ids[-1] in codec.stop_token_ids) == (reply.finish == "stop")
        with torch.no_grad():
            logits = starter(torch.tensor([request.ids + reply.ids])).logits[0] / temperature
        logs = torch.log_softmax(logits, -1)[len(request.ids) - 1 : -1]
        expected = logs.gather(1, torch.tensor(reply.ids)[:, None])[:, 0].tolist()
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_reply_depends_on_its_prompt_and_seed_alone(engine, codec):
    asked = requests(codec, range(6))
    together = answers(engine, asked)
    for request in reversed(asked):
        assert answers(engine, [request])[request.key].ids == together[request.key].ids
    reseeded = [TokenRequest(r.key, r.ids, r.seed + 100, 1.0) for r in asked]
    other = answers(engine, reseeded)
    assert [other[k].ids for k in range(6)] != [together[k].ids for k in range(6)]


def test_prompts_that_are_longer_than_a_step_together_draw_from_their_seeds(engine, codec):
    asked = [TokenRequest(r.key, (r.ids * 9)[:400], r.seed, 1.0) for r in requests(codec, range(48))]
    together = answers(engine, asked)
    assert together[40].ids == answers(engine, [asked[40]])[40].ids


def test_a_reply_ends_at_a_stop_text(engine, local, codec):
    whole = answers(engine, asked := requests(codec, range(6)))
    stopped = VllmEngine(local, codec.stop_token_ids, TOKENS, ("</think>",))
    for key, completion in answers(stopped, asked).items():
        ids, text = whole[key].ids, codec.text(completion.ids)
        assert completion.ids == ids[: len(completion.ids)]
        assert ("</think>" in text) == ("</think>" in codec.text(ids))
        assert "</think>" not in codec.text(completion.ids[:-1])


class LockStep(VllmEngine):
    """Holds replies back until all are done."""

    def poll(self):
        found = []
        while done := super().poll():
            found += done
        return found


def test_continuous_and_lock_step_trajectories_are_the_same(engine, local, codec):
    continuous = collect(engine, codec, "FrozenLake", 1.0)
    together = LockStep(local, codec.stop_token_ids, TOKENS)
    assert len({len(trajectory.turns) for trajectory in continuous}) > 1
    assert_same(continuous, collect(together, codec, "FrozenLake", 1.0))


def test_new_weights_of_a_tied_model_arrive(engine, starter, codec):
    assert starter.config.tie_word_embeddings
    before = collect(engine, codec, "Sokoban", 0.0)
    engine.sync(changed(starter), 1)
    found = collect(engine, codec, "Sokoban", 0.0)
    assert [t.ids for t in found] != [t.ids for t in before]
    assert engine.version == 1
    assert_same(found, collect(beside(starter, codec), codec, "Sokoban", 0.0))


def test_a_head_that_stays_behind_is_noticed(engine, starter, monkeypatch):
    def without_head(model, dtype):
        return ((n, w) for n, w in named_weights(model, dtype) if n != "lm_head.weight")

    monkeypatch.setattr(vllm_engine, "named_weights", without_head)
    with pytest.raises(EngineError, match="the engine does not have these weights"):
        engine.sync(changed(starter), 1)


def second_turns(engine, codec, model):
    """Ask, change the weights, and ask for what follows: its beginning lies in the prefix cache."""
    first = requests(codec, range(4), 0.0)
    replies = answers(engine, first)
    engine.sync(changed(model), 1)
    bridge = codec.bridge("And now?", closed=True)
    longer = [TokenRequest(r.key, [*r.ids, *replies[r.key].ids, *bridge], 0, 0.0) for r in first]
    return answers(engine, longer), answers(beside(model, codec), longer)


def test_the_prefix_cache_holds_nothing_of_old_weights(engine, starter, codec):
    found, expected = second_turns(engine, codec, starter)
    for key, completion in found.items():
        assert completion.ids == expected[key].ids
        assert completion.logprobs == pytest.approx(expected[key].logprobs, abs=1e-4)


def test_the_prefix_cache_would_show(engine, local, starter, codec, monkeypatch):
    """The control of the test before: with the cache left as it is, log-probabilities are wrong."""
    monkeypatch.setattr(local._engine, "reset_prefix_cache", lambda: True)
    found, expected = second_turns(engine, codec, starter)
    assert any(found[key].logprobs != pytest.approx(expected[key].logprobs, abs=1e-3) for key in found)
    monkeypatch.undo()
    assert local._engine.reset_prefix_cache()


def test_adapters_arrive_merged(engine, starter, codec):
    torch.manual_seed(0)
    settings = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False)
    adapted = peft.get_peft_model(starter, settings).eval()
    engine.sync(adapted, 1)
    found = answers(engine, requests(codec, range(4), 0.0))
    expected = answers(beside(adapted, codec), requests(codec, range(4), 0.0))
    for key, completion in found.items():
        assert completion.ids == expected[key].ids
        assert completion.logprobs == pytest.approx(expected[key].logprobs, abs=1e-4)


def test_resting_changes_nothing(engine, codec):
    before = answers(engine, requests(codec, range(3)))
    engine.release()
    after = answers(engine, requests(codec, range(3)))
    assert [after[k].ids for k in range(3)] == [before[k].ids for k in range(3)]
