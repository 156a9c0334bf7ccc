"""The type in which a model runs on a CPU, memory that is not enough for a whole batch, and stop texts."""

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from ragen_agents.engines.cpu.decoding import Decoder  # noqa: E402
from ragen_agents.policies import Request, Sampling, language_models  # noqa: E402
from ragen_agents.rollout.episode_runner import EpisodeSpec  # noqa: E402
from ragen_agents.rollout.play import play_batch  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402


@pytest.mark.parametrize("saved", ["float32", "bfloat16"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_model_runs_in_the_type_it_is_saved_in_where_that_is_fast(saved, fast, tmp_path, monkeypatch):
    AutoTokenizer.from_pretrained(STARTER).save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(STARTER, dtype=saved).save_pretrained(tmp_path)
    monkeypatch.setattr(language_models, "has_bfloat16", lambda: fast)
    used = []
    load = AutoModelForCausalLM.from_pretrained

    def loaded(*arguments, **options):
        used.append(options["dtype"])
        return load(*arguments, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", loaded)
    policy = language_models.TransformersPolicy(tmp_path, Sampling(0, 4), device="cpu")
    assert used == ["bfloat16" if fast and saved == "bfloat16" else "float32"]
    env = make("ragen/BanditText-v0")
    env.reset(seed=0)
    (reply,) = policy.act([Request(env.messages, 0, env)])
    assert 0 < reply.reply_tokens <= 4


FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def with_room_for(rows, monkeypatch):
    """Let memory run out where more rows than these are decoded together; returns what is tried."""
    tried, real = [], Decoder.run

    def run(self, chunks, *others):
        tried.append(len(chunks))
        if len(chunks) > rows:
            raise FULL
        return real(self, chunks, *others)

    monkeypatch.setattr(Decoder, "run", run)
    return tried


def test_fewer_conversations_are_played_at_a_time_where_memory_runs_out(tiny, monkeypatch, caplog):
    """Every episode of the batch was recorded as an error before."""
    specs = [EpisodeSpec("lake", "ragen/FrozenLakeText-v0", i) for i in range(7)]
    whole = play_batch(specs, language_models.TransformersPolicy(tiny, Sampling(1, 4)), 0)
    tried = with_room_for(2, monkeypatch)
    policy = language_models.TransformersPolicy(tiny, Sampling(1, 4))
    parts = play_batch(specs, policy, 0)
    assert tried[:3] == [7, 3, 1]
    assert set(tried[3:]) == {1}
    assert policy.batch_size == 1
    assert "1 replies at a time" in caplog.text
    for ours, theirs in zip(parts, whole, strict=True):
        assert ours.error is None
        assert [turn.reply for turn in ours.turns] == [turn.reply for turn in theirs.turns]


def test_a_single_conversation_that_does_not_fit_is_an_error(tiny, monkeypatch):
    with_room_for(0, monkeypatch)
    policy = language_models.TransformersPolicy(tiny, Sampling(1, 4))
    env = make("ragen/BanditText-v0")
    env.reset(seed=0)
    with pytest.raises(torch.OutOfMemoryError):
        policy.act([Request(env.messages, 0, env)] * 2)


def test_a_model_that_does_not_fit_is_one_line(tiny, monkeypatch):
    def full(*_, **__):
        raise FULL

    monkeypatch.setattr(torch.nn.Module, "to", full)
    with pytest.raises(RagenError, match="could not be loaded: CUDA out of memory"):
        language_models.TransformersPolicy(tiny, Sampling(1, 4))


def test_a_reply_continues_what_it_begins_with():
    policy = language_models.TransformersPolicy(STARTER, Sampling(0, 48), device="cpu")
    env = make("ragen/SokobanText-v0")
    env.reset(options={"split": "test", "index": 0})
    request = Request(env.messages, 0, env)
    (whole,) = policy.act([request])
    beginning = whole.text[: whole.text.index(". Box")]
    same, other = policy.continue_replies([request] * 2, [beginning, "<think>Player 1 1"])
    assert same == whole
    assert other.text.startswith("<think>Player 1 1")
    assert max(same.reply_tokens, other.reply_tokens) <= 48


@pytest.mark.parametrize(("stop", "kept"), [("</think>", False), ("</answer>", True), ("nk>B", True)])
def test_a_reply_ends_at_a_stop_text(stop, kept):
    env = make("ragen/BanditText-v0")
    requests = []
    for seed in range(3):
        env.reset(seed=seed)
        requests.append(Request(env.messages, seed, env))
    whole, cut = (
        language_models.TransformersPolicy(STARTER, Sampling(0, 200, texts)).act(requests)
        for texts in ((), (stop,))
    )
    for before, after in zip(whole, cut, strict=True):
        assert after.text == before.text.partition(stop)[0] + (stop if stop == "</answer>" else "")
        assert (after.text == before.text) == kept
        assert after.reply_tokens < before.reply_tokens or stop == "nk>B"
        assert not after.cut_off
