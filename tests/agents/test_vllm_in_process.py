"""vLLM in the trainer's process: sleep, hand-over and failures. `FakeVllmEngine` plays vLLM."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from fake_vllm_engine import FakeVllmEngine, pretend_vllm, sleeping_model  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.engines import EngineError, TokenRequest  # noqa: E402
from ragen_agents.engines.cpu.engine import TransformersEngine  # noqa: E402
from ragen_agents.engines.vllm import local as vllm_local  # noqa: E402
from ragen_agents.engines.vllm.engine import VllmEngine  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

ENDS, TOKENS = frozenset({2}), 12
FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.fixture(autouse=True)
def without_vllm(monkeypatch):
    pretend_vllm(monkeypatch)


@pytest.fixture
def vllm(tiny):
    return FakeVllmEngine(transformers.AutoModelForCausalLM.from_pretrained(tiny).eval())


@pytest.fixture
def engine(vllm):
    return VllmEngine(sleeping_model(vllm), ENDS, TOKENS)


def answers(engine):
    engine.submit([TokenRequest(k, list(range(5, 12 + k)), 1000 + k, 1.0) for k in range(4)])
    found = {}
    while done := engine.poll():
        found |= {completion.key: completion for completion in done}
    return {key: completion.ids for key, completion in found.items()}


def told(vllm, *names):
    """What vLLM was told since last asked, of some kinds."""
    found = [call for call in vllm.calls if call[0] in names]
    vllm.calls.clear()
    return found


def test_what_is_replaced_anyway_is_not_kept_on_the_host(engine, vllm, policy):
    engine.sync(policy, 1)
    engine.release()
    assert told(vllm, "sleep") == [("sleep", 2)]
    engine.sync(policy, 2)
    assert told(vllm, "wake_up", "reload_weights", "add_request") == [
        ("wake_up", "weights"), ("reload_weights",), ("wake_up", "kv_cache"), ("add_request",),
    ]  # fmt: skip


def test_weights_that_were_never_sent_are_kept(engine, vllm):
    before = answers(engine)
    engine.release()
    engine.release()
    assert told(vllm, "sleep") == [("sleep", 1)]
    assert answers(engine) == before


def test_a_second_collection_with_the_same_weights(engine, vllm, policy):
    engine.sync(policy, 1)
    expected = answers(TransformersEngine(policy, ENDS, 0, TOKENS))
    assert answers(engine) == expected
    engine.release()
    vllm.calls.clear()
    assert answers(engine) == expected
    assert ("reload_weights",) in told(vllm, "reload_weights")
    assert answers(engine) == expected
    assert not told(vllm, "reload_weights")


def test_a_sync_may_bring_other_weights_of_the_same_version(engine, policy):
    """As after a rollback, which comes after the sync of the same iteration."""
    engine.sync(policy, 3)
    before = answers(engine)
    with torch.no_grad():
        policy.lm_head.weight.mul_(-1)
    engine.sync(policy, 3)
    engine.release()
    assert answers(engine) != before
    assert engine.version == 3


def test_a_lost_update_is_noticed(engine, vllm, policy):
    engine.sync(policy, 1)
    with torch.no_grad():
        policy.get_input_embeddings().weight.mul_(1 + 1e-5)
    vllm.model.load_state_dict = lambda *_, **__: None
    with pytest.raises(EngineError, match=r"holds others in embed_tokens\.weight, lm_head\.weight"):
        engine.sync(policy, 2)


def test_a_device_that_cannot_sleep_is_left_alone(vllm, policy):
    engine = VllmEngine(vllm_local.LocalModel(vllm, "float32", can_sleep=False), ENDS, TOKENS)
    engine.sync(policy, 1)
    engine.release()
    assert not told(vllm, "sleep", "wake_up")


RUN = {"iterations": 2, "save_every": 9, "filter": {"kind": "none"}, "evaluation": {"every": 1}}


def trained(tiny, folder, **fails):
    """A run with vLLM, which fails as planned."""
    fake = FakeVllmEngine(transformers.AutoModelForCausalLM.from_pretrained(tiny).eval(), **fails)
    stops = transformers.GenerationConfig.from_pretrained(tiny).eos_token_id
    engine = VllmEngine(sleeping_model(fake), frozenset({stops}), 24)
    one = trainer(folder, {**RUN, "model": str(tiny)}, engine=engine)
    one.run()
    return fake


def test_a_run_sleeps_without_a_copy_of_the_weights(tiny, tmp_path):
    fake = trained(tiny, tmp_path / "run")
    levels = [call[1] for call in fake.calls if call[0] == "sleep"]
    assert levels == [2] * 5  # three evaluations and two rollouts
    whole = trainer(tmp_path / "plain", {**RUN, "model": str(tiny)})
    whole.run()
    for ours, theirs in zip(lines(tmp_path / "run"), lines(tmp_path / "plain"), strict=True):
        assert ours["validation/return"] == pytest.approx(theirs["validation/return"])


def started(monkeypatch, tiny, folder, **layer):
    """A trainer that starts vLLM itself, and how."""
    asked = []

    def load(source, settings):
        asked.append(settings)
        model = transformers.AutoModelForCausalLM.from_pretrained(source).eval()
        return sleeping_model(FakeVllmEngine(model))

    monkeypatch.setattr(vllm_local, "load_local", load)
    one = trainer(folder, {**RUN, "model": str(tiny), "engine": "vllm", **layer})
    return one, asked[0]


def test_vllm_is_given_what_the_games_conversations_need(monkeypatch, tiny, tmp_path):
    one, settings = started(monkeypatch, tiny, tmp_path / "run")
    assert settings.context == one.collector.context
    assert 300 < settings.context < one.learner.models.policy.config.max_position_embeddings
    assert settings.sequences == 8
    learned = [p for p in one.learner.models.parameters() if p.requires_grad]
    assert settings.reserved == sum(8 * p.numel() for p in learned)
    one.run()
    assert one.learner.state_to_come == 0


def test_the_settings_of_a_run_reach_vllm(monkeypatch, tiny, tmp_path):
    extra = {"attention_backend": "TRITON_ATTN"}
    given = {"max_model_len": 1500, "cache_gib": 3, "gpu_memory_utilization": 0.4, "extra": extra}
    layer = {"vllm": given, "evaluation": {"every": 1, "episodes": 100}}
    _, settings = started(monkeypatch, tiny, tmp_path / "run", **layer)
    assert (settings.context, settings.cache_gib, settings.gpu_memory_utilization) == (1500, 3, 0.4)
    assert (settings.sequences, settings.extra) == (100, extra)


def test_what_the_trainer_decides_is_no_extra(capsys):
    assert main(["train", "bandit", "engine=vllm", "vllm.extra.dtype=float16", "--plan"]) == 2
    assert "vllm.extra must not set dtype; the trainer controls" in capsys.readouterr().err


def test_a_run_is_resumed_with_less_memory(monkeypatch, tiny, tmp_path):
    started(monkeypatch, tiny, tmp_path / "run", iterations=1)[0].run()
    less = {"vllm": {"cache_gib": 0.5, "extra": {"enforce_eager": True}}}
    layer = {**less, "update": {"max_tokens_per_micro_batch": 2000}}
    started(monkeypatch, tiny, tmp_path / "run", **layer)[0].run()
    assert [line["iteration"] for line in lines(tmp_path / "run")] == [0, 1, 2]
    for name, value in {"precision": "bfloat16", "max_model_len": 1000}.items():
        with pytest.raises(RagenError, match=rf"holds another run: vllm\.{name}"):
            started(monkeypatch, tiny, tmp_path / "run", vllm={name: value})[0].run()


def test_episodes_that_do_not_fit_are_told(monkeypatch, tiny, tmp_path, caplog):
    first = 300  # room for the first prompt and one reply
    one, _ = started(
        monkeypatch, tiny, tmp_path / "run", vllm={"max_model_len": first}, evaluation={"every": 0}
    )
    one.run()
    assert any("raise vllm.max_model_len" in message for message in caplog.messages)
    assert lines(tmp_path / "run")[-1]["end/overflow"] > 0


@pytest.mark.parametrize(
    ("what", "doing"),
    [
        ("sleep", "going to sleep"), ("wake_up", "taking over weights"), ("add_request", "taking a request"),
        ("reload_weights", "taking over weights"), ("reset_prefix_cache", "taking over weights"),
        ("step", "generating"),
    ],
)  # fmt: skip
def test_a_failure_is_one_line_and_saves_the_state(what, doing, tiny, tmp_path):
    with pytest.raises(EngineError) as failure:
        trained(tiny, tmp_path / "run", **{what: [FULL] if what == "wake_up" else [None, FULL]})
    said = str(failure.value)
    assert "\n" not in said
    assert f"vLLM failed when {doing}: CUDA out of memory" in said
    assert "; use a smaller model" in said
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1


def test_waking_that_fails_is_one_line(vllm, engine):
    engine.release()
    vllm.fails["wake_up"] = RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be")
    with pytest.raises(EngineError, match="failed when waking up: CUDA error: out of memory; use"):
        answers(engine)


def test_an_update_that_fills_the_device_is_one_line(tiny, tmp_path):
    one = trainer(tmp_path / "run", {**RUN, "model": str(tiny)})

    def full(*_):
        raise FULL

    one.learner.update = full
    with pytest.raises(RagenError, match=r"memory.*lower update\.max_tokens_per_micro_batch"):
        one.run()


def test_a_start_that_fails_is_one_line(monkeypatch, tiny, tmp_path, capsys):
    def load(source, settings):
        raise RagenError(f"vLLM could not load it: {vllm_local._explained(FULL, settings.advice)}")

    monkeypatch.setattr(vllm_local, "load_local", load)
    out = tmp_path / "run"
    assert main(["train", "bandit", "engine=vllm", f"model={tiny}", "--out", str(out)]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "lower vllm.cache_gib" in said
    assert "update.max_tokens_per_micro_batch" in said
