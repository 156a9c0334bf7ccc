"""Settings that a run ignores are said at its start, and nobody else's are."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.config.bundled import bundled_names  # noqa: E402
from ragen_bench.training.train_settings import RECIPES, find_recipe  # noqa: E402
from ragen_bench.training_sweeps.sweep_config import bundled_sweeps, load_sweep  # noqa: E402
from ragen_bench.training_sweeps.tasks import Choice, plan  # noqa: E402

from ragen_agents.starpo import (  # noqa: E402
    PRESETS,
    SCALES,
    Estimator,
    TrainConfig,
    merged,
    register_estimator,
)
from ragen_agents.starpo.ignored_settings import IGNORED, setting_warnings  # noqa: E402

GRPO, GAE = {"advantage.estimator": "grpo"}, {"advantage.estimator": "gae"}

CASES = [
    # the setting and its value; what takes its effect away, and how it is said; what gives it back
    ("advantage.gamma", 0.9, {"advantage.estimator": "turn-gae"}, "advantage.estimator=turn-gae", GAE),
    ("advantage.lam", 0.9, {"advantage.estimator": "rloo"}, "advantage.estimator=rloo",
     {"advantage.estimator": "bilevel-gae"}),
    ("advantage.turn_gamma", 0.9, GAE, "advantage.estimator=gae", {"advantage.estimator": "turn-gae"}),
    ("advantage.turn_lam", 0.9, {"advantage.estimator": "gigpo"}, "advantage.estimator=gigpo",
     {"advantage.estimator": "turn-gae"}),
    ("advantage.whiten", False, GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("critic.kind", "shared", GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("filter.ratio", 0.5, {"filter.kind": "nonzero"}, "filter.kind=nonzero", {"filter.kind": "random"}),
    ("reward.in_filter", False, {"filter.kind": "random"}, "filter.kind=random",
     {"filter.kind": "random", "filter.refill": 1}),
    ("loss.cliprange_value", 0.2, GRPO, "advantage.estimator=grpo, which has no critic", GAE),
    ("loss.clip_ratio_low", 0.1, {"loss.policy_loss": "cispo"}, "loss.policy_loss=cispo", {}),
    ("loss.clip_ratio_high", 0.1, {"loss.policy_loss": "gpg"}, "loss.policy_loss=gpg", {}),
    ("loss.dual_clip", 3.0, {"loss.policy_loss": "cispo"}, "loss.policy_loss=cispo", {}),
    ("loss.kl", "reward", {"loss.kl_coef": 0.0}, "loss.kl_coef=0.0", {"loss.kl_coef": 0.1}),
    ("loss.kl_coef", 0.1, {"loss.kl": "none"}, "loss.kl=none", {"loss.kl": "reward"}),
]  # fmt: skip


def config(dotted):
    layers = []
    for name, value in dotted.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        layers.append(value)
    return TrainConfig(**merged(*layers))


def notes(dotted):
    return list(setting_warnings(config(dotted)))


@pytest.mark.parametrize(("name", "value", "without", "reason", "effective"), CASES)
def test_a_setting_without_effect_is_named(name, value, without, reason, effective):
    (note,) = [each for each in notes({**without, name: value}) if each.startswith(f"{name}=")]
    assert note.endswith(f" has no effect with {reason}")
    assert notes({**effective, name: value}) == []
    assert [each for each in notes(without) if each.startswith(f"{name}=")] == []


def test_every_row_has_a_case():
    assert {case[0] for case in CASES} == IGNORED.keys()


def test_values_are_shown_as_they_are_set():
    assert notes({**GRPO, "advantage.gamma": 0.9, "advantage.whiten": False}) == [
        "advantage.gamma=0.9 has no effect with advantage.estimator=grpo",
        "advantage.whiten=false has no effect with advantage.estimator=grpo, which has no critic",
    ]


@pytest.mark.usefixtures("own_registries")
def test_an_own_estimator_may_read_what_the_projects_do_not():
    register_estimator(Estimator("mine", lambda batch: batch, "for the test"))
    given = {"advantage.gamma": 0.9, "advantage.turn_lam": 0.5}
    assert notes({**given, "advantage.estimator": "mine"}) == []


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_set_nothing_in_vain(preset, scale):
    settings = TrainConfig(**merged(SCALES[scale], PRESETS[preset]))
    assert list(setting_warnings(settings)) == []


@pytest.mark.parametrize("name", bundled_names(RECIPES))
def test_recipes_set_nothing_in_vain(name):
    settings = TrainConfig(**merged({"model": "starter"}, find_recipe(name).train))
    assert list(setting_warnings(settings)) == []


@pytest.mark.parametrize("name", bundled_sweeps())
def test_sweeps_set_nothing_in_vain(name):
    sweep = load_sweep(name)
    for scale in sweep.scales:
        for task in plan(sweep, Choice(scale=scale, seeds=1, model="starter")):  # others are downloads
            in_vain = [t for t in setting_warnings(task.train) if "has no effect" in t]
            assert in_vain == [], (scale, task.cell)


def test_the_command_says_it_in_one_line(tiny, tmp_path, capsys):
    arguments = [
        "train", "bandit", "--preset", "starpo-grpo", "--out", str(tmp_path / "run"), f"model={tiny}",
        "iterations=1", "evaluation.every=0", "rollout.max_tokens=8", "rollout.prompts_per_iteration=2",
        "rollout.group_size=2", "advantage.gamma=0.9",
    ]  # fmt: skip
    assert main(arguments) == 0
    said = capsys.readouterr().err.splitlines()
    assert "warning: advantage.gamma=0.9 has no effect with advantage.estimator=grpo" in said
