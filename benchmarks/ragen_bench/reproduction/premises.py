"""Check the premises of claims: what must hold in the runs before a verdict says anything about the paper."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from ragen_bench.console.formats import percent
from ragen_bench.reproduction.findings import printed_gap, success_gap
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import (
    Claim,
    Column,
    Reproduction,
    ScalarClaim,
    ShareClaim,
    Structure,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import INFORMATION, collapsed_at, curve, gained, smoothed
from ragen_bench.stats.mixed_effects import mixed_effects_difference
from ragen_bench.training_sweeps.results import TaskResult
from ragen_bench.training_sweeps.tasks import INITIAL, SweepTask

_FULL: Final = 0.9
"""Share of its largest possible value from which on a measure has no room."""
_MOST: Final = 2 / 3
"""Share of the baseline's runs that must have done what a claim supposes."""
_TURNS: Final = 5
"""Turns of an episode in the paper, but for bandits."""


def failed_premises(what: Reproduction, claim: Claim, runs: Runs) -> str:
    """Return the premises of a claim that do not hold in its runs, in words.

    They are "" where all hold, and where a cell was not run. The premises: the setting has the structure that
    the claim is about, or the claim names the difference; what happens in training was validated; the measure
    is not at its cap; on each test some cell solves more than random play, and above the baseline there is
    room for half of the paper's effect; the baseline did what the claim supposes; and a difference of success
    is there in the gains over the initial models too.
    """
    if not all(runs.of(game, cell) for game, cell in what.cells_of(claim)):
        return ""
    checks = (_structure, _validated, _cap, _room, _baseline, _gain)
    failed = [text for check in checks if (text := check(what, claim, runs))]
    return "; ".join(dict.fromkeys(failed))


def _has_turns(task: SweepTask) -> bool:
    turns = task.train.env_kwargs.get("max_turns", _TURNS)
    return task.game.startswith("Bandit") or turns >= _TURNS


_MISSING: Final[Mapping[Structure, tuple[Callable[[SweepTask], bool], str]]] = {
    "turns": (_has_turns, "episodes have fewer than the paper's five turns"),
    "critic": (lambda task: task.train.has_critic, "a cell has no critic"),
    "divergence": (lambda task: task.train.loss.kl != "none", "the baseline has no KL penalty"),
    "filter": (lambda task: task.train.filter.kind != "none", "a cell has no filter"),
    "pretrained": (
        lambda task: task.train.model.startswith(("hf:", "smollm2")),
        "the initial model learned replies and games from demonstrations",
    ),
}  # fmt: skip


def _structure(what: Reproduction, claim: Claim, runs: Runs) -> str:
    cells, failed = what.cells_of(claim), []
    for part in claim.needed:
        has, text = _MISSING[part]
        of = [each for each in cells if part != "divergence" or each[1] == _baseline_of(claim)]
        if not all(has(runs.of(game, cell)[0].task) for game, cell in of):
            failed.append(text)
    return "; ".join(failed)


def _baseline_of(claim: Claim) -> str:
    first = claim.cell if isinstance(claim, ShareClaim) else claim.more
    success = claim.less if isinstance(claim, SuccessClaim) else None
    return claim.baseline or success or first or claim.less or ""


def _validated(what: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that runs in which something is to have happened were validated, and that one gained."""
    if isinstance(claim, SuccessClaim):
        return ""
    if isinstance(claim, ScalarClaim) and claim.scalar not in ("peak", "fall"):
        return ""
    for game, cell in what.cells_of(claim):
        gains = [gained(result) for result in runs.of(game, cell)]
        if all(one is None for one in gains):
            return f"{cell} was not validated while it trained on {game}"
    if isinstance(claim, ShareClaim) and not any(map(gained, runs.of(claim.train, claim.cell))):
        return f"no run of {claim.cell} gained on validation"
    return ""


def _cap(what: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that estimates of information, and shares of equal thoughts, do not begin at their largest."""
    measure = claim.event if isinstance(claim, ShareClaim) else getattr(claim, "scalar", "")
    is_information = measure.startswith("information") or measure == "valid-template"
    if not is_information and measure != "template":
        return ""
    metric = INFORMATION if is_information else "template_share"
    for game, cell in what.cells_of(claim):
        results = runs.of(game, cell)
        firsts = [v[0] for r in results if len(v := smoothed(curve(r, metric)[1]))]
        cap = _most_information(results[0]) if is_information else 1.0
        if firsts and np.mean(firsts) >= _FULL * cap:
            return f"the measure begins at {percent(float(np.mean(firsts)) / cap)}% of its largest value"
    return ""


def _most_information(result: TaskResult) -> float:
    train = result.task.train
    prompts = min(train.rollout.prompts_per_iteration, train.monitor.information_prompts)
    return math.log(prompts)


def _room(what: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that a test is not too hard for all cells, and not too easy for the one with less success."""
    if not isinstance(claim, SuccessClaim):
        return ""
    columns = what.columns_of(claim)
    for column in columns:
        rates = [_rate(runs, column, cell) for cell in (claim.more, claim.less)]
        chances = [runs.chance(column, cell) for cell in (claim.more, claim.less)]
        if all(rate <= chance for rate, chance in zip(rates, chances, strict=True)):
            return (
                f"on {column.test} no cell solves more than random play: "
                f"{percent(max(rates))}% against {percent(max(chances))}%"
            )
    rooms = [runs.optimum(column, claim.less) - _rate(runs, column, claim.less) for column in columns]
    room, printed = 100 * sum(rooms) / len(rooms), printed_gap(what, claim)
    if claim.equal or printed is None or not room < printed / 2:
        return ""
    return f"{claim.less} leaves room for {room:.1f} points, less than half of the paper's {printed:.1f}"


def _rate(runs: Runs, column: Column, cell: str) -> float:
    sample = runs.sample(column, cell)
    return math.nan if sample is None else float(sample.mean())


def _baseline(what: Reproduction, claim: Claim, runs: Runs) -> str:
    if claim.supposes is None:
        return ""
    cell = _baseline_of(claim)
    for game in dict.fromkeys(game for game, _ in what.cells_of(claim)):
        check = _learns if claim.supposes == "learns" else _collapses
        if text := check(runs, game, cell):
            return text
    return ""


def _learns(runs: Runs, game: str, cell: str) -> str:
    column = Column(train=game, test=game)
    sample, initial = runs.sample(column, cell), runs.control(column, cell, INITIAL)
    if sample is None or initial is None:
        return f"on {game} the initial model was not tested"
    gain = mixed_effects_difference(sample - initial, np.zeros((2, sample.shape[1]))).interval
    if gain.low > 0:
        return ""
    return (
        f"{cell} ends {100 * gain.estimate:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}] points from "
        f"the initial model on {game}, so it is not shown to learn"
    )


def _collapses(runs: Runs, game: str, cell: str) -> str:
    results = [result for result in runs.of(game, cell) if gained(result) is not None]
    if not results:
        return f"{cell} was not validated while it trained on {game}"
    count = sum(collapsed_at(result) is not None for result in results)
    if count >= _MOST * len(results):
        return ""
    return f"{cell} gained and then collapsed on validation in {count} of {len(results)} runs"


def _gain(what: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that a difference that is there at the end is there in the gains too."""
    if not isinstance(claim, SuccessClaim):
        return ""
    gap, gain = (success_gap(what, claim, runs, over_initial) for over_initial in (False, True))
    if gap is None or gap.interval.low <= 0 <= gap.interval.high:
        return ""
    if gain is None:
        return "the initial models were not tested"
    _, low, high = gain.interval
    if (low > 0) if gap.interval.estimate > 0 else (high < 0):
        return ""
    return "the gap was there before training: the gains do not differ that way"
