"""Results of sweeps whose truth is known."""

import numpy as np
from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import games_of, load_reproduction
from ragen_bench.training_sweeps.results import Outcome, TaskResult
from ragen_bench.training_sweeps.tasks import Choice, plan

LEVELS = 256
PAPERS = ("Bandit", "Sokoban", "FrozenLake")
"""The paper's games."""
SHRINKS = "RAGEN-2: the in-group deviation shrinks in training without a filter"


def outcome(rng, rate):
    solved = rng.random(LEVELS) < rate
    return Outcome(success="".join("01"[int(s)] for s in solved), optimal=1.0, mean_return=0.0,
                   valid=1.0, reply_tokens=30.0)  # fmt: skip


def make_result(task, rates=None, seed_sd=0.0, curves=None, number=0):
    """A result with success about a rate for each test; controls are poor, good and in between."""
    rng = np.random.default_rng([number, task.seed or 0])
    if task.seed is None:
        outcomes = {
            agent: {test: outcome(rng, rate) for test in task.suite.tasks}
            for agent, rate in (("random", 0.1), ("oracle", 1.0), ("initial", 0.2))
        }
    else:
        shift = rng.normal(0, seed_sd)
        outcomes = {
            "policy": {
                test: outcome(rng, (rates or {}).get(test, 0.5) + shift)
                for test in task.suite.tasks
            }
        }
    curves = curves or {"success": [0.2, 0.3, 0.4, 0.5], "seconds/total": [2.0] * 4}
    length = len(next(iter(curves.values())))
    return TaskResult(
        task=task, outcomes=outcomes, curves={} if task.seed is None else curves,
        iterations=[] if task.seed is None else list(range(1, length + 1)),
        seconds={"train": 8.0, "test": 1.0}, made_with={"python": "3"},
    )  # fmt: skip


def results_of(name, rates, seeds=6, games=(), **more):
    """Results of the sweep of a table: rates by cell, or by cell and test."""
    what = load_reproduction(name)
    games = tuple(games or games_of(what, "laptop"))
    found = []
    for number, task in enumerate(plan(what.load_sweep(), Choice(seeds=seeds, games=games))):
        wanted = rates.get(task.cell, 0.5)
        per_test = wanted if isinstance(wanted, dict) else dict.fromkeys(task.suite.tasks, wanted)
        found.append(make_result(task, per_test, number=number, **more))
    return what, found


def judged(name, claim, runs):
    """The verdict on one claim of a table whose only claim it is."""
    what = load_reproduction(name)
    found = next(c for c in what.claims if c.text == claim)
    (verdict,) = judge(what.model_copy(update={"claims": [found]}), runs)
    return verdict


def runs_of(name, cells, games=(), seeds=6):
    """Runs of a sweep with curves by cell."""
    what = load_reproduction(name)
    tasks = plan(what.load_sweep(), Choice(seeds=seeds, games=games))
    return Runs(what.load_sweep(), [
        make_result(task, curves=cells(task)) for task in tasks if cells(task) is not None
    ])  # fmt: skip
