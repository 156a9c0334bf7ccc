"""Training where a prompt does not extend the one before: several rows, each trajectory counted once."""

import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from installed import require  # noqa: E402

require("datasets")

from chat_templates import QWEN3  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from training_runs import assert_equal_weights, lines, trainer  # noqa: E402

from ragen_agents.adapters.trl_rollouts import GameRollouts  # noqa: E402
from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.collect import GroupSpec  # noqa: E402
from ragen_agents.rollout.trajectory import CONTEXT, Trajectory  # noqa: E402
from ragen_agents.sft import SftConfig, demonstrations  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch, micro_batches  # noqa: E402
from ragen_agents.starpo.update.loss import (  # noqa: E402
    batch_totals,
    critic_loss,
    policy_loss,
)
from ragen_agents.starpo.update.models import score_trajectories  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

CPU = torch.device("cpu")
LONG = {"env_kwargs": {"max_turns": 4, "max_actions": 20}, "game": "ragen/FrozenLakeText-v0"}


@pytest.fixture(scope="module")
def thinker(tiny, tmp_path_factory):
    """A model whose chat template removes earlier thoughts."""
    folder = tmp_path_factory.mktemp("thinker")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny)
    transformers.AutoModelForCausalLM.from_pretrained(tiny).save_pretrained(folder)
    tokenizer.chat_template = QWEN3
    tokenizer.save_pretrained(folder)
    return folder


def parted(trajectory):
    """Return the same trajectory with a row for each turn."""
    first = trajectory.turn_ids.index(0)
    found = Trajectory(trajectory.group, trajectory.member, trajectory.ids[:first])
    for turn in range(len(trajectory.turns)):
        at = [i for i, t in enumerate(trajectory.turn_ids) if t == turn]
        if turn:
            found.begin_row(trajectory.ids[: at[0]])
        logprobs = [trajectory.logprobs[i] for i in at]
        found.append_reply([trajectory.ids[i] for i in at], logprobs)
    found.turns, found.end = trajectory.turns, trajectory.end
    return found


def gradients(one, trajectories, budget=100_000):
    """Return the metrics and the gradients of one optimizer batch."""
    batch = TrainBatch.of(trajectories, one.codec.pad)
    prepared = one.learner.prepare(batch)
    everything = range(len(trajectories))
    totals = batch_totals(one.config, prepared.inputs, list(everything))
    one.learner.models.zero_grad()
    for part in micro_batches(batch.sizes, everything, budget):
        scores = score_trajectories(one.learner.models, batch, part, CPU)
        inputs = prepared.inputs.part(part, batch.columns(part), CPU)
        loss, _ = policy_loss(one.config, scores, inputs, totals)
        if one.config.has_critic:
            loss = loss + critic_loss(one.config, scores, inputs, totals)
        loss.backward()
    found = {n: p.grad for n, p in one.learner.models.named_parameters() if p.grad is not None}
    return prepared.metrics, found


@pytest.mark.parametrize(
    ("estimator", "mode"),
    [
        ("grpo", "token-mean"),
        ("gae", "seq-mean-token-mean"),
        ("turn-gae", "seq-mean-token-sum-norm"),
        ("bilevel-gae", "token-mean"),
    ],
)
def test_a_row_for_each_turn_has_the_gradient_of_one_row(estimator, mode, tiny, tmp_path):
    layer = {
        "model": str(tiny), "advantage": {"estimator": estimator}, "loss": {"agg_mode": mode, "kl": "none"},
        "filter": {"kind": "none"},
    }  # fmt: skip
    one = trainer(tmp_path, layer, LONG)
    whole = one.collector.collect([GroupSpec(g, 4, {"seed": g}) for g in range(2)], 0)
    assert {len(t.rows) for t in whole} == {1}
    for number, trajectory in enumerate(whole):
        trajectory.turns[-1].rewards = {"game": number**2 / 100}
    turns = [parted(trajectory) for trajectory in whole]
    assert max(len(t.rows) for t in turns) > 2
    expected, first = gradients(one, whole)
    for budget in (100_000, 500):
        metrics, second = gradients(one, turns, budget)
        assert metrics == pytest.approx(expected, abs=1e-5)
        assert first.keys() == second.keys()
        for name, gradient in first.items():
            assert torch.allclose(gradient, second[name], rtol=0, atol=1e-6), name
    assert max(float(g.abs().max()) for g in first.values()) > 1e-4


@pytest.mark.parametrize("settings", [{"history": "none"}, {"history": "last"}])
def test_each_row_is_the_prompt_that_was_shown(settings, tiny, tmp_path):
    kwargs = {"env_kwargs": {**LONG["env_kwargs"], **settings}}
    one = trainer(tmp_path, {"model": str(tiny)}, LONG, kwargs)
    asked = {}
    submit = one.engine.submit

    def watched(requests):
        for request in requests:
            asked.setdefault(request.key, []).append(request.ids)
        submit(requests)

    one.engine.submit = watched
    found = one.collector.collect([GroupSpec(0, 4, {"seed": 0})], 0)
    for key, trajectory in enumerate(found):
        prompts = []
        for row in trajectory.rows:
            firsts = [row.turn_ids.index(turn) for turn in sorted({*row.turn_ids} - {CONTEXT})]
            prompts += [row.ids[:first] for first in firsts]
        assert prompts == asked[key]
        assert len(trajectory.messages) == 2 + 2 * len(trajectory.turns)  # all turns, for people
    rows = [len(t.rows) for t in found]
    turns = [len(t.turns) for t in found]
    assert max(turns) > 2
    assert rows == (turns if settings["history"] == "none" else [max(1, n - 1) for n in turns])


@pytest.mark.parametrize(("preset", "history"), [("starpo-ppo", "full"), ("starpo-grpo", "none")])
def test_a_model_whose_template_removes_thoughts_is_trained_and_resumed(
    preset, history, thinker, tmp_path, monkeypatch
):
    kwargs = {"env_kwargs": {**LONG["env_kwargs"], "history": history}}
    layers = [{"model": str(thinker), "filter": {"kind": "none"}, "monitor": {"information_every": 1}}]
    layers += [LONG, kwargs]
    monkeypatch.setattr("ragen_agents.starpo.trainer.SCORED_EVERY", 1)
    reports = []
    trainer(tmp_path / "whole", *layers, preset=preset, reports=reports).run()
    assert all(metrics["mismatch_max"] < 1e-3 for _, metrics in reports[1:] if "rows" in metrics)
    for iterations in (1, 2):
        trainer(tmp_path / "parts", *layers, {"iterations": iterations}, preset=preset).run()
    assert lines(tmp_path / "parts")[-1] == lines(tmp_path / "whole")[-1]
    if history == "none":
        last = lines(tmp_path / "whole")[-1]
        assert last["rows"] == last["turns"] > 1
    last = "checkpoints/000002"
    assert_equal_weights(tmp_path / "whole" / last, tmp_path / "parts" / last)


def test_thoughts_of_earlier_turns_are_in_no_prompt(thinker):
    codec = ChatCodec(transformers.AutoTokenizer.from_pretrained(thinker))
    settings = {"actions_per_turn": 1}
    config = SftConfig(game="ragen/FrozenLakeText-v0", demonstrations=3, env_kwargs=settings)
    found = demonstrations(config, codec)
    assert max(trajectory.replies for trajectory in found) > 1
    for trajectory in found:
        assert len(trajectory.rows) == trajectory.replies
        for turn, row in enumerate(trajectory.rows):
            shown = codec.tokenizer.decode(row.ids[: row.prompt])
            assert shown.count("</answer>") >= turn
            assert shown.count("<think>") <= 1  # the one that the prompt itself names
            assert {*row.turn_ids} == {CONTEXT, turn}


def test_supervised_training_learns_from_every_row(thinker, tmp_path):
    pytest.importorskip("trl")
    out = tmp_path / "model"
    settings = ["demonstrations=4", "epochs=1", "batch_size=2", "micro_batch=2", "lora_rank=0"]
    settings += ["env_kwargs.actions_per_turn=1", f"model={thinker}"]
    assert main(["sft", "frozenlake", *settings, "--out", str(out)]) == 0
    written = (out / "demonstrations.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line)["messages"] for line in written]
    assert max(map(len, chats)) > 3
    for chat in chats:  # whole, thoughts included
        assert all(m["content"].startswith("<think>") for m in chat if m["role"] == "assistant")


def test_trl_takes_one_row_for_each_episode(thinker):
    with pytest.raises(RagenError, match=r"history is 'none', but must be 'full'.*one row"):
        GameRollouts("ragen/FrozenLakeText-v0", history="none")
    trainer = SimpleNamespace(
        model=transformers.AutoModelForCausalLM.from_pretrained(thinker),
        processing_class=transformers.AutoTokenizer.from_pretrained(thinker),
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        state=SimpleNamespace(global_step=0),
    )
    rollouts = GameRollouts("ragen/FrozenLakeText-v0")
    with pytest.raises(RagenError, match=r"chat template rewrites earlier turns.*one row"):
        rollouts(rollouts.dataset(1)["prompt"], trainer)
