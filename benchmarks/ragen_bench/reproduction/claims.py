"""Judge the claims of a table or figure."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from ragen_bench.reproduction.findings import (
    Finding,
    Remedy,
    scalar_finding,
    share_finding,
    success_finding,
)
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import (
    Claim,
    Origin,
    Reproduction,
    ScalarClaim,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import SECONDS
from ragen_bench.stats.paired import ALPHA, holm_exclusive
from ragen_bench.training_sweeps.state import Cost, TaskState
from ragen_bench.training_sweeps.tasks import SweepTask

Word = Literal["supported", "contradicted", "smaller", "undecided", "not run"]
"""``smaller``: the effect is less than half of the paper's, and not shown to be there at all."""
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


def judge(what: Reproduction, runs: Runs) -> list[Verdict]:
    """Return the verdicts on all claims of a table or figure.

    A claim is supported, or contradicted, where the effect is on its side, or on the other, and the
    p-value, adjusted by Holm over all claims, also those that were not run, is at most 5%. It is smaller
    where that is not so, but an effect of half of the paper's size is rejected in the same way. Where seeds
    were added after verdicts had been made, p-values are corrected for it (`Runs.correction`). Everything
    else is undecided, also all that is known of one seed only: it says nothing of other seeds. What would
    decide a claim would do so even if it had the smallest p-value of all, and seeds were added.
    """
    factors, later = (
        [runs.correction(what.cells_of(c), needed_curve(c), further) for c in what.claims]
        for further in (0, 1)
    )
    findings = [
        _corrected(_find(what, claim, runs), factor)
        for claim, factor in zip(what.claims, factors, strict=True)
    ]
    level = ALPHA / max(len(findings), 1)
    return [
        Verdict(
            claim.text,
            claim.origin,
            f.paper,
            f.ours,
            f.seeds,
            float(p),
            word,
            *(f.remedy(level / factor) if word in ("undecided", "not run") else Remedy()),
        )
        for claim, factor, f, (p, half) in zip(
            what.claims, later, findings, _adjusted(findings), strict=True
        )
        for word, p in [_word(f, p, half)]
    ]


def needed_curve(claim: Claim) -> str:
    """Return the curve without which a run is not used: runs of another command have no times."""
    is_time = isinstance(claim, ScalarClaim) and claim.scalar == "seconds"
    return SECONDS if is_time else ""


def _corrected(finding: Finding, factor: int) -> Finding:
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
    """Return the verdict and the p-value that it rests on."""
    if math.isnan(p):
        return ("undecided" if finding.ours else "not run"), p
    if p <= ALPHA:
        return ("supported" if finding.favourable else "contradicted"), p
    return ("smaller", half) if half <= ALPHA else ("undecided", p)


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
    ``core_hours`` their time on one core; 0 and nan where no number of runs is known that would.
    """
    data = pd.DataFrame(verdicts, columns=Verdict._fields)
    missing = [
        [
            cost.whole(task)
            for cell in what.cells_of(claim)
            for task, done in [_runs(states, *cell, needed_curve(claim))]
            for _ in range(verdict.seeds_needed - done)
        ]
        for claim, verdict in zip(what.claims, verdicts, strict=True)
    ]
    data["further_runs"] = list(map(len, missing))
    data["core_hours"] = [_hours(seconds) for seconds in missing]
    return data


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
