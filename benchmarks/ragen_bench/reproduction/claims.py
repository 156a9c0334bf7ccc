"""Judge the claims of a table or figure."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy import stats

from ragen_bench.reproduction.findings import (
    Finding,
    Remedy,
    scalar_finding,
    share_finding,
    success_finding,
)
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.premises import failed_premises
from ragen_bench.reproduction.reproduction_config import (
    Claim,
    Origin,
    Reproduction,
    ScalarClaim,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import SECONDS
from ragen_bench.stats.paired import ALPHA, holm, holm_exclusive
from ragen_bench.training_sweeps.state import Cost, TaskState
from ragen_bench.training_sweeps.tasks import SweepTask

Word = Literal["supported", "contradicted", "smaller", "undecided", "cannot tell", "not run"]
"""``smaller``: the effect is less than half of the paper's, and not shown to be there at all; ``cannot
tell``: a premise of the claim does not hold in these runs."""
WORDS: Final[tuple[Word, ...]] = get_args(Word)


class Verdict(NamedTuple):
    """A claim and its verdict."""

    claim: str
    origin: Origin
    paper: str
    ours: str
    seeds: int
    """Runs of each setting; the smaller number where they differ, and 0 where it was not run."""
    p_holm: float
    """Of the verdict, adjusted over all claims of the table or figure; nan where nothing can be tested."""
    verdict: Word
    remedy: str
    """The way to decide it; "" where it is decided."""
    seeds_needed: int = 0
    """Runs of each setting that would decide it; 0 where it is decided, or no number is known or enough."""
    premise: str = ""
    """The premise that does not hold, where nothing can be told."""
    gain: str = ""
    """The difference of the gains over the initial models, for success."""
    p: float = math.nan
    """What ``p_holm`` is of, before it is adjusted over claims."""
    where: str = ""
    """Place in the paper."""


def judge(what: Reproduction, runs: Runs) -> list[Verdict]:
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
        [2**c.changed * runs.correction(what.cells_of(c), needed_curve(c), further) for c in what.claims]
        for further in (0, 1)
    )
    premises = [failed_premises(what, claim, runs) for claim in what.claims]
    findings = [
        _corrected(_find(what, claim, runs), math.nan if premise else factor)
        for claim, factor, premise in zip(what.claims, factors, premises, strict=True)
    ]
    level = ALPHA / max(len(findings), 1)
    verdicts = []
    for claim, factor, premise, f, (p, half) in zip(
        what.claims, later, premises, findings, _adjusted(findings), strict=True
    ):
        word, of = _word(f, p, half)
        remedy = Remedy() if premise or word not in ("undecided", "not run") else f.remedy(level / factor)
        verdicts.append(
            Verdict(
                claim.shown, claim.origin, f.paper, f.ours, f.seeds,
                float(half if word == "smaller" else p), "cannot tell" if premise else word, *remedy,
                premise=premise, gain=f.gain, p=of, where=claim.where,
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


def _find(what: Reproduction, claim: Claim, runs: Runs) -> Finding:
    if isinstance(claim, SuccessClaim):
        return success_finding(what, claim, runs)
    if isinstance(claim, ScalarClaim):
        return scalar_finding(claim, runs)
    return share_finding(claim, runs)


def claims_data(
    what: Reproduction, verdicts: Sequence[Verdict], states: Sequence[TaskState], cost: Cost
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
            for cell in what.cells_of(claim)
            if cell in planned
            for task, done in [_runs(states, *cell, needed_curve(claim))]
            for _ in range(verdict.seeds_needed - done)
        ]
        for claim, verdict in zip(what.claims, verdicts, strict=True)
    ]
    data["further_runs"] = list(map(len, missing))
    data["core_hours"] = [_hours(seconds) for seconds in missing]
    return data


def over_all(p_values: Sequence[float]) -> tuple[list[bool], list[bool]]:
    """Return which claims are decided over all tables at once: by Holm, and at 5% false discoveries."""
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
