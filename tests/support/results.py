"""Results of sweeps whose truth is known."""

import numpy as np
from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.reproduction_config import games_of, load_reproduction
from ragen_bench.reproduction.run_measures import Runs
from ragen_bench.training_sweeps.results import Outcome, TaskResult
from ragen_bench.training_sweeps.tasks import Choice, plan

LEVELS = 256
PAPERS = ("Bandit", "Sokoban", "FrozenLake")
"""The paper's games."""
DOWN = {"validation/success": [0.2] + [0.5] * 19 + [0.0] * 20}
"""Curves of a run that gains and then collapses."""
UP = {"validation/success": [0.2] + [0.5] * 39}
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
            "policy": {test: outcome(rng, (rates or {}).get(test, 0.5) + shift) for test in task.suite.tasks}
        }
    curves = curves or {"success": [0.2, 0.3, 0.4, 0.5], "seconds/total": [2.0] * 4}
    length = len(next(iter(curves.values())))
    first = 0 if "validation/success" in curves else 1
    return TaskResult(
        task=task, outcomes=outcomes, curves={} if task.seed is None else curves,
        iterations=[] if task.seed is None else list(range(first, first + length)),
        seconds={"train": 8.0, "test": 1.0}, made_with={"python": "3"},
    )  # fmt: skip


def load_plain(name):
    """A table whose claims have no premises on the setting and were never changed."""
    what = load_reproduction(name)
    plain = {"needs": [], "differs": {}, "supposes": None, "changed": 0}
    claims = [claim.model_copy(update=plain) for claim in what.claims]
    return what.model_copy(update={"claims": claims})


def sweep_of(what):
    """The sweep of a table, as if none of its runs had been replaced."""
    return what.load_sweep().model_copy(update={"replaced": {}})


def results_of(name, rates, seeds=6, games=(), **more):
    """A table and results of its sweep: rates by cell, or by cell and test."""
    what = load_plain(name)
    games = tuple(games or games_of(what, "laptop"))
    found = []
    for number, task in enumerate(plan(what.load_sweep(), Choice(seeds=seeds, games=games))):
        wanted = rates.get(task.cell, 0.5)
        per_test = wanted if isinstance(wanted, dict) else dict.fromkeys(task.suite.tasks, wanted)
        found.append(make_result(task, per_test, number=number, **more))
    return what, found


def judged(name, claim, runs):
    """The verdict on one claim of a table whose only claim it is."""
    what = load_plain(name)
    found = next(c for c in what.claims if c.text == claim)
    (verdict,) = judge(what.model_copy(update={"claims": [found]}), runs)
    return verdict


def runs_of(name, cells, games=(), seeds=6):
    """Runs of a sweep with curves by cell."""
    what = load_reproduction(name)
    tasks = plan(what.load_sweep(), Choice(seeds=seeds, games=games))
    return Runs(sweep_of(what), [
        make_result(task, curves=cells(task)) for task in tasks if cells(task) is not None
    ])  # fmt: skip
