"""That training learns: with a sign wrong anywhere from rollout to update, nothing here is reached."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged  # noqa: E402
from ragen_agents.starpo.callbacks import ReportMetrics  # noqa: E402
from ragen_agents.starpo.trainer import Trainer  # noqa: E402


def reached(folder, preset, metric, wanted, **own):
    """Train until a metric reaches what is wanted, and return the metric's values."""
    base = {"rollout": {"prompts_per_iteration": 8, "group_size": 8, "max_tokens": 120},
            "update": {"mini_batch_size": 16, "learning_rate": 5e-4}, "iterations": 24, "save_every": 100,
            "evaluation": {"every": 0}, "monitor": {"information_every": 0}}  # fmt: skip
    config = TrainConfig(**merged(SCALES["laptop"], PRESETS[preset], base, own))
    seen = []

    def report(iteration, metrics):
        if metric in metrics:
            seen.append(metrics[metric])
            if seen[-1] >= wanted:
                trainer.stop()

    trainer = Trainer(config, folder, callbacks=[ReportMetrics(report)])
    trainer.run()
    return seen


# Without a filter the arm without spread is preferred, which is the better one of the trap.
@pytest.mark.parametrize(("preset", "game"), [("starpo-s", "Bandit"), ("starpo-grpo", "BanditTrap")])
def test_both_estimators_learn_to_pull_the_better_arm(preset, game, tmp_path):
    seen = reached(
        tmp_path, preset, "validation/success", 0.9, iterations=48,
        game=f"ragen/{game}Text-v0", evaluation={"every": 4, "episodes": 64},
    )  # fmt: skip
    assert seen[0] < 0.75  # the starter pulls either arm
    assert seen[-1] >= 0.9


def test_a_single_level_of_sokoban_is_learned(tmp_path):
    seen = reached(
        tmp_path, "starpo-grpo", "success", 0.75, game="ragen/SokobanText-v0", levels=1,
        model="small-sokoban", env_kwargs={"think": False},
        rollout={"prompts_per_iteration": 1, "group_size": 32, "max_tokens": 48},
    )  # fmt: skip
    assert seen[0] < 0.25
    assert seen[-1] >= 0.75
