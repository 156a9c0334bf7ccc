"""Judge the claims of a table or figure, after checking their premises.

Premises are what must hold in the runs before a verdict says anything about the paper.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy import stats

from ragen_bench.console.formats import percent
from ragen_bench.reproduction.findings import (
    Finding,
    Remedy,
    printed_gap,
    scalar_finding,
    share_finding,
    success_finding,
    success_gap,
)
from ragen_bench.reproduction.reproduction_config import (
    Claim,
    Column,
    Origin,
    Reproduction,
    ScalarClaim,
    ShareClaim,
    Structure,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import (
    INFORMATION,
    SECONDS,
    Runs,
    collapsed_at,
    curve,
    gained,
    smoothed,
)
from ragen_bench.stats.mixed_effects import mixed_effects_difference, mixed_effects_rate
from ragen_bench.stats.paired import ALPHA, holm, holm_exclusive
from ragen_bench.training_sweeps.state import Cost, TaskState
from ragen_bench.training_sweeps.tasks import INITIAL, SweepTask

Word = Literal["supported", "contradicted", "smaller", "undecided", "cannot tell", "not run"]
"""``smaller``: the effect is less than half of the paper's, and not shown to be there at all; ``cannot
tell``: a premise of the claim does not hold in these runs."""
WORDS: Final[tuple[Word, ...]] = get_args(Word)
_FULL: Final = 0.9
"""Share of its largest possible value from which on a measure has no room."""
_MOST: Final = 2 / 3
"""Share of the baseline's runs that must have done what a claim supposes."""
_TURNS: Final = 5
"""Turns of an episode in the paper, but for bandits."""


class Verdict(NamedTuple):
    """A claim and its verdict."""

    claim: str
    origin: Origin
    paper: str
    ours: str
    seeds: int
    """Runs of each setting; the smaller number where they differ, and 0 where it was not run."""
    p_holm: float
    """p-value of the verdict, adjusted over all claims of the table or figure; nan where nothing can be
    tested."""
    verdict: Word
    remedy: str
    """The way to decide it; "" where it is decided."""
    seeds_needed: int = 0
    """Runs of each setting that would decide it; 0 where it is decided, or no number is known or enough."""
    premise: str = ""
    """The premise that does not hold, where nothing can be told."""
    gain: str = ""
    """The difference of the gains over the initial models, for success."""
    validation: str = ""
    """The difference on validation levels after training, for success; "" without validation."""
    p: float = math.nan
    """``p_holm`` before it is adjusted over claims."""
    where: str = ""
    """Place in the paper."""


def judge(exhibit: Reproduction, runs: Runs) -> list[Verdict]:
    """Return the verdicts on all claims of a table or figure.

    Where a premise of a claim does not hold, nothing can be told; it counts as one with a p-value of 1, so
    that no verdict is easier for it. A claim is supported, or contradicted, where the effect is on its side,
    or on the other, and the p-value, adjusted by Holm over all claims, also those that were not run, is at
    most 5%. It is smaller where that is not so, but an effect of half of the paper's size is rejected in the
    same way. Where seeds were added after verdicts had been made, runs were replaced (`Runs.correction`) or
    the claim was changed, p-values are doubled each time. Everything else is undecided, also all that is
    known of one seed only: it says nothing of other seeds. What would decide a claim would do so even if it
    had the smallest p-value of all, and seeds were added.
    """
    factors, later = (
        [
            2**c.changed * runs.correction(exhibit.cells_of(c), needed_curve(c), further)
            for c in exhibit.claims
        ]
        for further in (0, 1)
    )
    premises = [_failed_premises(exhibit, claim, runs) for claim in exhibit.claims]
    findings = [
        _corrected(_find(exhibit, claim, runs), math.nan if premise else factor)
        for claim, factor, premise in zip(exhibit.claims, factors, premises, strict=True)
    ]
    level = ALPHA / max(len(findings), 1)
    verdicts = []
    for claim, factor, premise, f, (p, half) in zip(
        exhibit.claims, later, premises, findings, _adjusted(findings), strict=True
    ):
        word, of = _word(f, p, half)
        remedy = Remedy() if premise or word not in ("undecided", "not run") else f.remedy(level / factor)
        verdicts.append(
            Verdict(
                claim.shown, claim.origin, f.paper, f.ours, f.seeds,
                float(half if word == "smaller" else p), "cannot tell" if premise else word, *remedy,
                premise=premise, gain=f.gain, validation=f.validation, p=of, where=claim.where,
            )
        )  # fmt: skip
    return verdicts


def needed_curve(claim: Claim) -> str:
    """Return the curve without which a run is not used: runs of another command have no times."""
    is_time = isinstance(claim, ScalarClaim) and claim.scalar == "seconds"
    return SECONDS if is_time else ""


def _corrected(finding: Finding, factor: float) -> Finding:
    both = np.minimum(factor * np.array([finding.p_value, finding.p_half]), 1.0)
    return finding._replace(p_value=float(both[0]), p_half=float(both[1]))


def _adjusted(findings: Sequence[Finding]) -> list[tuple[float, float]]:
    """Return both p-values of each finding, adjusted over the claims; nan where nothing can be tested.

    A claim that cannot be tested counts as one that is not rejected, so that running it later cannot undo
    the verdict on another.
    """
    pairs = np.array([(f.p_value, f.p_half) for f in findings]).reshape(-1, 2)
    untested = np.isnan(pairs[:, 0])
    pairs[untested, 0] = 1.0
    tested = ~np.isnan(pairs)
    questions = np.repeat(np.arange(len(pairs))[:, None], 2, axis=1)
    pairs[tested] = holm_exclusive(pairs[tested], questions[tested])
    pairs[untested, 0] = math.nan
    return [(float(p), float(half)) for p, half in pairs]


def _word(finding: Finding, p: float, half: float) -> tuple[Word, float]:
    """Return the verdict and the p-value that it rests on, before adjustment."""
    if math.isnan(p):
        return ("undecided" if finding.ours else "not run"), p
    if p <= ALPHA:
        return ("supported" if finding.favourable else "contradicted"), finding.p_value
    return ("smaller", finding.p_half) if half <= ALPHA else ("undecided", finding.p_value)


def _find(exhibit: Reproduction, claim: Claim, runs: Runs) -> Finding:
    if isinstance(claim, SuccessClaim):
        return success_finding(exhibit, claim, runs)
    if isinstance(claim, ScalarClaim):
        return scalar_finding(claim, runs)
    return share_finding(claim, runs)


def claims_data(
    exhibit: Reproduction, verdicts: Sequence[Verdict], states: Sequence[TaskState], cost: Cost
) -> pd.DataFrame:
    """Return a row for each claim: the fields of `Verdict`, and what follows.

    ``further_runs`` is how many runs are missing to decide a claim, those of all its settings together, and
    ``core_hours`` their time on one core; 0 and nan where no number of runs is known that would, or a game
    is not one of the scale's.
    """
    data = pd.DataFrame(verdicts, columns=Verdict._fields)
    planned = {(state.task.game, state.task.cell) for state in states}
    missing = [
        [
            cost.whole(task)
            for cell in exhibit.cells_of(claim)
            if cell in planned
            for task, done in [_runs(states, *cell, needed_curve(claim))]
            for _ in range(verdict.seeds_needed - done)
        ]
        for claim, verdict in zip(exhibit.claims, verdicts, strict=True)
    ]
    data["further_runs"] = list(map(len, missing))
    data["core_hours"] = [_hours(seconds) for seconds in missing]
    return data


def over_all(p_values: Sequence[float]) -> tuple[list[bool], list[bool]]:
    """Return whether each claim is decided over all tables: by Holm, and at 5% false discoveries."""
    filled = np.nan_to_num(np.array(p_values, dtype=np.float64), nan=1.0)
    return list(holm(filled) <= ALPHA), list(stats.false_discovery_control(filled) <= ALPHA)


def _runs(states: Sequence[TaskState], game: str, cell: str, curve: str) -> tuple[SweepTask, int]:
    """Return the task of one run of a cell, and how many are done; with a curve, if one is named."""
    of_cell = [
        s for s in states
        if (s.task.game, s.task.cell) == (game, cell) and s.task.seed is not None
    ]  # fmt: skip
    done = [s.result for s in of_cell if s.result is not None]
    return of_cell[0].task, sum(not curve or curve in result.curves for result in done)


def _hours(seconds: Sequence[float | None]) -> float:
    known = [each for each in seconds if each is not None]
    return sum(known) / 3600 if known and len(known) == len(seconds) else math.nan


def _failed_premises(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Return the premises of a claim that do not hold in its runs, in words.

    They are "" where all hold, and where a cell was not run. The premises: the setting has the structure that
    the claim is about, or the claim names the difference; what happens in training was validated; a collapse
    that did not come had the paper's iterations to come; the measure is not at its cap; on each test some
    cell is shown to solve more than random play, and above the baseline there is room for half of the
    paper's effect; the baseline did what the claim supposes; and a difference of success is there in the
    gains over the initial models too.
    """
    if not all(runs.of(game, cell) for game, cell in exhibit.cells_of(claim)):
        return ""
    checks = (_structure, _validated, _length, _cap, _room, _baseline, _gain)
    failed = [text for check in checks if (text := check(exhibit, claim, runs))]
    return "; ".join(dict.fromkeys(failed))


def _has_turns(task: SweepTask) -> bool:
    turns = task.train.env_kwargs.get("max_turns", _TURNS)
    return task.game.startswith("Bandit") or turns >= _TURNS


_MISSING: Final[Mapping[Structure, tuple[Callable[[SweepTask], bool], str]]] = {
    "turns": (_has_turns, "episodes have fewer than the paper's five turns"),
    "critic": (lambda task: task.train.has_critic, "a cell has no critic"),
    "divergence": (lambda task: task.train.loss.kl != "none", "the baseline has no KL penalty"),
    "thoughts": (lambda task: task.train.env_kwargs.get("think", True), "the runs have no thoughts"),
    "filter": (lambda task: task.train.filter.kind != "none", "a cell has no filter"),
    "pretrained": (
        lambda task: task.train.model.startswith(("hf:", "smollm2")),
        "the initial model learned replies and games from demonstrations",
    ),
}  # fmt: skip


def _structure(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    cells, failed = exhibit.cells_of(claim), []
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


def _validated(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that runs in which something is to have happened were validated, and that one gained."""
    if isinstance(claim, SuccessClaim):
        return ""
    if isinstance(claim, ScalarClaim) and claim.scalar not in ("peak", "fall"):
        return ""
    for game, cell in exhibit.cells_of(claim):
        gains = [gained(result) for result in runs.of(game, cell)]
        if all(one is None for one in gains):
            return f"{cell} was not validated while it trained on {game}"
    if isinstance(claim, ShareClaim) and not any(map(gained, runs.of(claim.train, claim.cell))):
        return f"no run of {claim.cell} gained on validation"
    return ""


def _length(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that a collapse that did not come had as many iterations to come as in the paper."""
    if not isinstance(claim, ShareClaim) or claim.event != "collapse" or claim.less or claim.origin == "own":
        return ""
    results = [result for result in runs.of(claim.train, claim.cell) if gained(result)]
    collapsed = sum(collapsed_at(result) is not None for result in results)
    paper = exhibit.load_sweep().scales["paper"].iterations
    ours = max((result.task.iterations for result in results), default=0)
    if not results or 2 * collapsed > len(results) or ours >= paper:
        return ""
    seen = f"{claim.cell} collapsed in {collapsed} of {len(results)} runs"
    return f"{seen} of {ours} iterations; the paper's have {paper}"


def _cap(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that estimates of information, and shares of equal thoughts, do not begin at their largest."""
    measure = claim.event if isinstance(claim, ShareClaim) else getattr(claim, "scalar", "")
    is_information = measure.startswith("information") or measure == "valid-template"
    if not is_information and measure != "template":
        return ""
    metric = INFORMATION if is_information else "template_share"
    for game, cell in exhibit.cells_of(claim):
        results = runs.of(game, cell)
        firsts = [v[0] for r in results if len(v := smoothed(curve(r, metric)[1]))]
        prompts = results[0].task.train.monitor.information_prompts
        cap = math.log(prompts) if is_information else 1.0
        if firsts and np.mean(firsts) >= _FULL * cap:
            return f"the measure begins at {percent(float(np.mean(firsts)) / cap)}% of its largest value"
    return ""


def _room(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that a test is not too hard for all cells, and not too easy for the one with less success."""
    if not isinstance(claim, SuccessClaim):
        return ""
    columns = exhibit.columns_of(claim)
    for column in columns:
        cells = (claim.more, claim.less)
        if not any(_above_random(runs, column, cell) for cell in cells):
            best = max(_rate(runs, column, cell) for cell in cells)
            chance = max(runs.chance(column, cell) for cell in cells)
            return (
                f"on {column.test} no cell is shown to solve more than random play: "
                f"{percent(best)}% against {percent(chance)}%"
            )
    rooms = [runs.optimum(column, claim.less) - _rate(runs, column, claim.less) for column in columns]
    room, printed = 100 * sum(rooms) / len(rooms), printed_gap(exhibit, claim)
    if claim.equal or printed is None or not room < printed / 2:
        return ""
    return f"{claim.less} leaves room for {room:.1f} points, less than half of the paper's {printed:.1f}"


def _rate(runs: Runs, column: Column, cell: str) -> float:
    sample = runs.sample(column, cell)
    return math.nan if sample is None else float(sample.mean())


def _above_random(runs: Runs, column: Column, cell: str) -> bool:
    """Return whether the interval of a cell's success is above random play, or this is not known."""
    sample, chance = runs.sample(column, cell), runs.chance(column, cell)
    return sample is None or math.isnan(chance) or mixed_effects_rate(sample).low > chance


def _baseline(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    if claim.supposes is None:
        return ""
    cell = _baseline_of(claim)
    for game in dict.fromkeys(game for game, _ in exhibit.cells_of(claim)):
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
    chance = runs.chance(column, cell)
    if not gain.low > 0:
        points = f"{100 * gain.estimate:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        return f"{cell} is not shown to learn on {game}: {points} points from the initial model"
    if sample.mean() <= chance:  # nan if not known
        return (
            f"{cell} solves {percent(float(sample.mean()))}% of {game}, no more than random play "
            f"({percent(chance)}%)"
        )
    return ""


def _collapses(runs: Runs, game: str, cell: str) -> str:
    results = [result for result in runs.of(game, cell) if gained(result) is not None]
    if not results:
        return f"{cell} was not validated while it trained on {game}"
    count = sum(collapsed_at(result) is not None for result in results)
    if count >= _MOST * len(results):
        return ""
    return f"{cell} gained and then collapsed on validation in {count} of {len(results)} runs"


def _gain(exhibit: Reproduction, claim: Claim, runs: Runs) -> str:
    """Check that a difference that is there at the end is there in the gains too."""
    if not isinstance(claim, SuccessClaim):
        return ""
    gap, gain = (success_gap(exhibit, claim, runs, over_initial) for over_initial in (False, True))
    if gap is None or gap.interval.low <= 0 <= gap.interval.high:
        return ""
    if gain is None:
        return "the initial models were not tested"
    _, low, high = gain.interval
    if (low > 0) if gap.interval.estimate > 0 else (high < 0):
        return ""
    return "the gap was there before training: the gains do not differ that way"
