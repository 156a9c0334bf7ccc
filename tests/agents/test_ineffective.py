"""Settings without an effect are said at the start of a run, and nobody else's are."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.sweeps.sweep_config import bundled_sweeps, load_sweep  # noqa: E402
from ragen_bench.sweeps.tasks import Choice, plan  # noqa: E402
from ragen_bench.training.recipes import recipes  # noqa: E402

from ragen_agents.starpo import (  # noqa: E402
    PRESETS,
    SCALES,
    Aggregation,
    Estimator,
    PolicyLoss,
    TrainConfig,
    merged,
    register_aggregation,
    register_estimator,
    register_policy_loss,
)
from ragen_agents.starpo.ineffective import REASONS, Run, ineffective_settings  # noqa: E402

GRPO, GAE = {"advantage.estimator": "grpo"}, {"advantage.estimator": "gae"}
BFLOAT16 = {"update.precision": "bfloat16"}
VLLM, SERVER = {"engine": "vllm"}, {"engine": "vllm-server"}
SHARED = {"critic.kind": "shared"}
SAME = "engine=transformers and update.precision=float32, whose log-probabilities are the trainer's"

CASES = [
    # the setting and its value; what takes its effect away, and how it is said; what gives it back
    ("advantage.gamma", 0.9, {"advantage.estimator": "turn-gae"}, "advantage.estimator=turn-gae", GAE),
    ("advantage.lam", 0.9, {"advantage.estimator": "rloo"}, "advantage.estimator=rloo",
     {"advantage.estimator": "bilevel-gae"}),
    ("advantage.turn_gamma", 0.9, GAE, "advantage.estimator=gae", {"advantage.estimator": "gigpo"}),
    ("advantage.turn_lam", 0.9, {"advantage.estimator": "gigpo"}, "advantage.estimator=gigpo",
     {"advantage.estimator": "turn-gae"}),
    ("advantage.whiten", False, GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("critic.kind", "shared", GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("critic.vf_coef", 0.1, GRPO, "advantage.estimator=grpo, which has no critic", GAE | SHARED),
    ("critic.vf_coef", 0.1, GAE, "critic.kind=separate", GAE | SHARED),
    ("filter.ratio", 0.5, {"filter.kind": "nonzero"}, "filter.kind=nonzero", {"filter.kind": "random"}),
    ("filter.loss_weight", "kept", {"filter.kind": "none"}, "filter.kind=none", {"filter.kind": "std"}),
    ("reward.in_filter", False, {"filter.kind": "random"}, "filter.kind=random",
     {"filter.kind": "random", "filter.refill": 1}),
    ("loss.cliprange_value", 0.2, GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("loss.dual_clip", 3.0, {"loss.policy_loss": "cispo"}, "loss.policy_loss=cispo",
     {"loss.policy_loss": "gspo"}),
    ("loss.kl", "reward", {"loss.kl_coef": 0.0}, "loss.kl_coef=0", {"loss.kl_coef": 0.1}),
    ("loss.mis_bounds", (0.5, 2.0), {}, SAME, BFLOAT16),
    ("loss.tis_cap", 3.0, {}, SAME, VLLM),
    ("loss.kl_coef", 0.1, {"loss.kl": "none"}, "loss.kl=none", {"loss.kl": "reward"}),
    ("loss.length_norm", 9, {}, "loss.agg_mode=token-mean", {"loss.agg_mode": "seq-mean-token-sum-norm"}),
    ("loss.mis_level", "trajectory", {}, "loss.mis_bounds=null", {"loss.mis_bounds": (0.5, 2.0)} | VLLM),
    ("update.float32_head", False, {}, "update.precision=float32", BFLOAT16),
    ("update.old_logprobs", "trainer", BFLOAT16, "update.precision=bfloat16", {}),
    ("update.old_logprobs", "trainer", VLLM, "engine=vllm", {}),
    ("update.old_logprobs", "trainer", GAE | SHARED, "critic.kind=shared", GRPO),
    ("vllm.precision", "float32", {}, "engine=transformers", VLLM),
    ("vllm.max_model_len", 256, {}, "engine=transformers", VLLM),
    ("vllm.max_model_len", 256, {}, "engine=transformers", SERVER),
    ("vllm.cache_gib", 1.0, {}, "engine=transformers", VLLM),
    ("vllm.gpu_memory_utilization", 0.5, {}, "engine=transformers", VLLM),
    ("vllm.extra", {"enforce_eager": True}, {}, "engine=transformers", VLLM),
    ("server.url", ["http://a", "http://b"], VLLM, "engine=vllm", SERVER),
    ("server.folder", "there", {}, "engine=transformers", SERVER),
    ("server.timeout", 9.0, {}, "engine=transformers", SERVER),
    ("server.outage_timeout", 9.0, {}, "engine=transformers", SERVER),
    ("evaluation.temperature", 0.0, {"evaluation.every": 0}, "evaluation.every=0", {}),
    ("monitor.information_prompts", 8, {"monitor.information_every": 0}, "monitor.information_every=0", {}),
    ("monitor.retrieval_floor", 0.1, {"monitor.information_every": 0}, "monitor.information_every=0", {}),
]  # fmt: skip


def config(dotted):
    layers = []
    for name, value in dotted.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        layers.append(value)
    return TrainConfig(**merged(*layers))


def notes(dotted, **more):
    return list(ineffective_settings(Run(config(dotted), **more)))


@pytest.mark.parametrize(("name", "value", "without", "reason", "effective"), CASES)
def test_a_setting_without_effect_is_named(name, value, without, reason, effective):
    (note,) = [each for each in notes({**without, name: value}) if each.startswith(f"{name}=")]
    assert note.endswith(f" has no effect with {reason}")
    assert notes({**effective, name: value}) == []
    assert [each for each in notes(without) if each.startswith(f"{name}=")] == []


def test_every_row_has_a_case():
    own_reward = {f"reward.{name}" for name in ("game", "penalty", "format", "grounded")}
    assert {case[0] for case in CASES} | {"engine"} | own_reward == REASONS.keys()


def test_values_are_shown_as_they_are_set():
    assert notes({**GRPO, "advantage.gamma": 0.9, "advantage.whiten": False}) == [
        "advantage.gamma=0.9 has no effect with advantage.estimator=grpo",
        "advantage.whiten=false has no effect with advantage.estimator=grpo, which has no critic",
    ]


def test_an_engine_of_the_callers_leaves_the_configured_one_without_effect():
    reason = "has no effect with an engine that is passed to the trainer"
    assert notes({**VLLM, "vllm.cache_gib": 1.0}, has_own_engine=True) == [
        f"engine=vllm {reason}", f"vllm.cache_gib=1.0 {reason}",
    ]  # fmt: skip
    assert notes({"update.old_logprobs": "trainer"}, has_own_engine=True) == [
        f"update.old_logprobs=trainer {reason}"
    ]


def test_a_reward_of_the_callers_leaves_the_configured_one_without_effect():
    reason = "has no effect with a reward that is passed to the trainer"
    given = {"reward.format": 0.5, "reward.penalty": 0.0}
    assert notes(given) == []
    assert notes(given, has_own_reward=True) == [
        f"reward.penalty=0.0 {reason}", f"reward.format=0.5 {reason}",
    ]  # fmt: skip


def test_weights_that_are_split_are_scored_by_the_trainer_anyway():
    given = {"update.old_logprobs": "trainer", "fsdp": True}
    assert notes(given) == []
    assert notes(given, is_split=True) == [
        "update.old_logprobs=trainer has no effect with fsdp=true"
    ]


@pytest.mark.usefixtures("own_registries")
def test_own_parts_may_read_what_the_projects_do_not():
    register_estimator(Estimator("mine", lambda batch: batch, "for the test"))
    register_policy_loss(PolicyLoss("mine", lambda part: part, "for the test"))
    register_aggregation(Aggregation("mine", lambda loss, mask, totals: loss, "for the test"))
    given = {"advantage.gamma": 0.9, "advantage.whiten": False, "advantage.turn_lam": 0.5}
    assert notes({**given, "advantage.estimator": "mine"}) == []
    given = {"loss.kl_coef": 0.5, "loss.mis_level": "trajectory", "loss.length_norm": 9}
    assert notes({**given, "loss.policy_loss": "mine"}) == []
    assert notes({"loss.agg_mode": "mine", "loss.length_norm": 9}) == []


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_set_nothing_in_vain(preset, scale):
    settings = TrainConfig(**merged(SCALES[scale], PRESETS[preset]))
    assert list(ineffective_settings(Run(settings))) == []


@pytest.mark.parametrize("name", recipes())
def test_recipes_set_nothing_in_vain(name):
    settings = TrainConfig(**merged({"model": "starter"}, recipes()[name].train))
    assert list(ineffective_settings(Run(settings))) == []


@pytest.mark.parametrize("name", bundled_sweeps())
def test_sweeps_set_nothing_in_vain(name):
    sweep = load_sweep(name)
    for scale in sweep.scales:
        for task in plan(sweep, Choice(scale=scale, seeds=1)):
            assert list(ineffective_settings(Run(task.train))) == [], (scale, task.cell)


def test_the_command_says_it_in_one_line(tiny, tmp_path, capsys):
    arguments = [
        "train", "bandit", "--preset", "starpo-grpo", "--out", str(tmp_path / "run"), f"model={tiny}",
        "iterations=1", "evaluation.every=0", "rollout.max_tokens=8", "rollout.prompts_per_iteration=2",
        "rollout.group_size=2", "advantage.gamma=0.9",
    ]  # fmt: skip
    assert main(arguments) == 0
    said = capsys.readouterr().err.splitlines()
    assert "warning: advantage.gamma=0.9 has no effect with advantage.estimator=grpo" in said
