"""The echo-trap monitor on series of metrics."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pydantic")

from ragen_agents.starpo.config import Monitor
from ragen_agents.starpo.run.monitor import EchoTrapMonitor


def watch(**series):
    """Feed series of equal lengths, with a little noise, and return the signs with their iterations."""
    rng = np.random.default_rng(0)
    length = len(next(iter(series.values())))
    monitor = EchoTrapMonitor(Monitor(window=10))
    base = {"success": 0.4, "reward_std": 1.0, "entropy": 0.5, "grad_norm": 0.3}
    seen = []
    for i in range(length):
        metrics = {name: series[name][i] if name in series else value for name, value in base.items()}
        noisy = {name: value * (1 + 0.05 * rng.standard_normal()) for name, value in metrics.items()}
        seen += [(sign, i) for sign in monitor.observe(noisy)]
    return seen


def falling(start, low, length=60, begin=20, end=40):
    return np.interp(range(length), [0, begin, end, length], [start, start, low, low])


def test_a_healthy_run_is_quiet():
    assert watch(success=np.linspace(0.2, 0.85, 120), entropy=np.linspace(0.5, 0.3, 120)) == []


def test_early_signs_come_before_the_collapse():
    seen = dict(
        watch(
            reward_std=falling(1.0, 0.05, begin=15, end=30),
            entropy=falling(0.5, 0.02, begin=15, end=30),
            success=falling(0.6, 0.1, begin=35, end=45),
        )
    )
    assert set(seen) == {"reward_std", "entropy", "collapse"}
    assert max(seen["reward_std"], seen["entropy"]) < seen["collapse"]


def test_a_gradient_that_stays_large_is_told_once():
    norms = np.full(50, 0.3)
    norms[33:37] = 4.0
    assert watch(grad_norm=norms) == [("gradient", 35)]
    assert watch(grad_norm=norms / 5) == []  # would not even be clipped
    idle = np.where(np.arange(50) < 33, 0.001, 1.5)
    deviation = np.where(np.arange(50) < 33, 0.0, 1.0)
    assert ("gradient", 35) in watch(grad_norm=idle)
    assert "gradient" not in dict(watch(grad_norm=idle, reward_std=deviation))  # equal returns before
    norms[33:37] = (4.0, 4.0, 0.3, 4.0)  # a spike here and there is noise
    assert watch(grad_norm=norms) == []
    norms[33:37] = 4.0
    assert watch(grad_norm=norms, success=np.full(50, 0.97)) == []  # a solved game


def test_a_solved_game_has_no_early_signs():
    quiet = watch(success=np.linspace(0.5, 1.0, 40), reward_std=falling(1.0, 0.01, 40))
    solved = np.concatenate([np.full(15, 0.5), np.full(45, 0.97)])
    assert watch(success=solved, reward_std=falling(1.0, 0.01), entropy=falling(0.5, 0.01)) == []
    assert "collapse" not in dict(quiet)


def test_a_sign_that_comes_back_is_told_again():
    entropy = np.concatenate([np.full(20, 0.5), np.full(15, 0.02), np.full(20, 0.5), np.full(15, 0.02)])
    assert [sign for sign, _ in watch(entropy=entropy)] == ["entropy", "entropy"]


def test_metrics_that_are_missing_are_no_sign():
    monitor = EchoTrapMonitor(Monitor(window=3))
    for _ in range(20):
        assert monitor.observe({"success": 0.0}) == {}
    monitor = EchoTrapMonitor(Monitor(window=3))
    assert [monitor.observe({"grad_norm": 1.0}) for _ in range(20)] == [{}] * 20


def first_collapse(rows, monitor=None):
    """Return the iteration, from 1, in which the monitor sees a collapse."""
    monitor = monitor or EchoTrapMonitor(Monitor())
    for number, row in enumerate(rows, 1):
        if "collapse" in monitor.observe(row):
            return number
    return None


def solved(*success, **more):
    return [{"success": value, **more} for value in success]


def test_a_fast_fall_from_a_low_start_is_a_collapse():
    assert first_collapse(solved(0.2, *[0.0] * 60)) == 6
    assert first_collapse(solved(0.167, 0.02, *[0.0] * 9)) <= 7
    assert first_collapse(solved(0.04, *[0.0] * 60)) is None  # what was hardly there cannot fall


def test_what_is_lost_before_the_first_iteration_ends_counts_from_the_evaluation():
    monitor = EchoTrapMonitor(Monitor())
    monitor.begin({"validation/success": 0.3, "validation/return": 0.1})
    assert first_collapse(solved(*[0.0] * 9, **{"return": -1.0}), monitor) == 5


def test_a_fall_that_validation_does_not_see_is_no_collapse():
    monitor = EchoTrapMonitor(Monitor())
    rows = solved(*[0.5] * 8, *[0.1] * 12)
    rows[9]["validation/success"] = 0.4
    rows[19]["validation/success"] = 0.1
    assert first_collapse(rows, monitor) == 20


def test_the_best_outlives_a_rollback():
    monitor = EchoTrapMonitor(Monitor())
    assert first_collapse(solved(*[0.5] * 8, *[0.0] * 9), monitor) == 13
    monitor.restart()
    assert monitor.healthy
    assert first_collapse(solved(*[0.06, 0.0, 0.03, 0.02, 0.05, 0.0]), monitor) == 5
    monitor.restart()
    assert first_collapse(solved(*[0.5] * 20), monitor) is None


def test_nothing_kept_and_nothing_solved_is_a_collapse():
    assert first_collapse(solved(*[0.0] * 9, kept_groups=0.0)) == 5
    assert first_collapse(solved(*[0.0] * 9, kept_groups=1.0)) is None
    assert first_collapse(solved(*[1.0] * 9, kept_groups=0.0)) is None


def test_fewer_successes_that_earn_more_are_no_collapse():
    """As on a bandit whose success is the worse arm."""
    fall = [0.6] * 8 + [0.1] * 20
    for after, seen in ((0.4, False), (0.1, True)):
        earned = [0.2] * 8 + [after] * 20
        rows = [{"success": s, "return": r} for s, r in zip(fall, earned, strict=True)]
        assert (first_collapse(rows) is not None) == seen


@pytest.mark.slow
def test_kept_runs_that_collapsed_are_seen_and_no_other():
    early_signs = pytest.importorskip("early_signs")
    broken = [run for run in early_signs.runs("risk")[0] if run.collapsed]
    assert len(broken) > 5
    assert all(run.seen is not None for run in broken)
    healthy, false = early_signs.runs("filter")
    assert len(healthy) > 50
    assert not false


RECORDED = json.loads((Path(__file__).parents[1] / "data/recorded_runs.json").read_text())
"""Runs of the sweep ``algorithm``: 40 iterations of 64 trajectories from the starter model."""


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_collapses_are_seen_and_healthy_runs_raise_no_alarm(name):
    """StarPO with group-relative advantages falls into the safe arm of Bandit; the other runs learn."""
    run, monitor, seen, healthy = RECORDED[name], EchoTrapMonitor(Monitor()), {}, []
    for i in range(len(run["success"])):
        metrics = {key: values[i] for key, values in run.items() if values[i] is not None}
        for sign in monitor.observe(metrics):
            seen.setdefault(sign, i + 1)
        healthy += [i] if monitor.healthy else []
    if name.startswith("Bandit starpo-grpo"):
        assert run["success"][0] > 0.4
        assert max(run["success"][10:]) < 0.1
        assert seen["collapse"] <= 10
        assert seen["reward_std"] <= 15
        assert "entropy" in seen
        assert run["success"][healthy[-1]] > 0.5 * run["success"][0]
    else:
        assert not {"collapse", "reward_std", "entropy"} & set(seen)
        assert healthy[-1] > len(run["success"]) - 10


def test_a_run_is_healthy_until_a_sign_or_halfway_to_a_collapse():
    monitor = EchoTrapMonitor(Monitor(window=2))
    healthy = []
    for success, spread in (
        (0.8, 1),
        (0.8, 1),
        (0.8, 1),
        (0.62, 1),
        (0.55, 1),
        (0.8, 1),
        (0.8, 0.1),
        (0.8, 0.1),
    ):
        monitor.observe({"success": success, "reward_std": spread, "entropy": 0.5})
        healthy.append(monitor.healthy)
    assert healthy == [True, True, True, True, False, True, True, False]
