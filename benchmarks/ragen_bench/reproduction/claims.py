"""The verdict of our runs on a claim, and what would decide it if it is undecided."""

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from scipy import stats

from ragen_bench.console.formats import number, percent
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.reproduction_config import (
    Claim,
    Reproduction,
    ScalarClaim,
    ShareClaim,
    SuccessClaim,
)
from ragen_bench.reproduction.run_measures import happened, scalar_of
from ragen_bench.stats.intervals import FloatArray, wilson
from ragen_bench.stats.mixed_effects import (
    Difference,
    mixed_effects_difference,
    mixed_effects_rate_difference,
)
from ragen_bench.stats.paired import ALPHA, holm_exclusive
from ragen_bench.stats.permutation import permutation_p, sign_flip_p
from ragen_bench.stats.power import seeds_for

_POINTS: Final = 5.0
"""Difference that is worth finding where the paper prints none."""
_ONE_SEED: Final = "at least 2 seeds, to see how much they differ"

_CHANGES: Final = {"thought": " of the length", "deviation": "", "kept": " of the groups"}
"""Scalars that are logarithms of a ratio, and what follows the percentage."""
_CORRELATIONS: Final = (
    "information-success", "entropy-success", "information-over-entropy",
    "policy-rise", "entropy-rise", "divergence-rise", "policy-over-entropy",
)  # fmt: skip

Word = Literal["supported", "contradicted", "smaller", "undecided", "not run"]
"""``smaller``: the effect is less than half of the paper's, and not shown to be there at all."""
WORDS: Final[tuple[Word, ...]] = get_args(Word)


class Finding(NamedTuple):
    """What was found for one claim, before other claims are taken into account."""

    favourable: bool
    """Whether what was seen is on the claim's side."""
    p_value: float
    """Of there being nothing, or of the other side, two-sided; nan where nothing can be tested."""
    paper: str
    ours: str
    seeds: int = 0
    """Runs of each setting; the smaller number where they differ."""
    remedy: Callable[[float], str] = lambda _: ""
    """What would decide it if it is undecided, by the level at which it must be tested."""
    p_half: float = math.nan
    """Of an effect of at least half of the paper's; nan where the paper prints none on the claim's side."""


class Verdict(NamedTuple):
    """A claim and its verdict."""

    claim: str
    paper: str
    ours: str
    seeds: int
    """Runs of each setting; the smaller number where they differ, and 0 where it was not run."""
    p_holm: float
    """Of the verdict, adjusted over all claims of the table or figure; nan where nothing can be tested."""
    verdict: Word
    remedy: str
    """What would decide it; "" where it is decided."""


def judge(what: Reproduction, runs: Runs) -> list[Verdict]:
    """Return the verdicts on all claims of a table or figure.

    A claim is supported, or contradicted, where the effect is on its side, or on the other, and the
    p-value, adjusted by Holm over the claims, is at most 5%. It is smaller where that is not so, but an
    effect of half of the paper's size is rejected in the same way. Everything else is undecided, also all
    that is known of one seed only: it says nothing of other seeds. What would decide a claim would do so
    even if it had the smallest p-value of all.
    """
    findings = [_find(what, claim, runs) for claim in what.claims]
    level = ALPHA / max(len(findings), 1)
    return [
        Verdict(
            claim.text,
            f.paper,
            f.ours,
            f.seeds,
            float(p),
            word,
            f.remedy(level) if word == "undecided" else "",
        )
        for claim, f, (p, half) in zip(what.claims, findings, _adjusted(findings), strict=True)
        for word, p in [_word(f, p, half)]
    ]


def _adjusted(findings: Sequence[Finding]) -> list[tuple[float, float]]:
    """Return both p-values of each finding, adjusted over the claims; nan where nothing can be tested."""
    pairs = np.array([(f.p_value, f.p_half) for f in findings]).reshape(-1, 2)
    known = ~np.isnan(pairs)
    questions = np.repeat(np.arange(len(pairs))[:, None], 2, axis=1)
    pairs[known] = holm_exclusive(pairs[known], questions[known])
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
        return _success(what, claim, runs)
    if isinstance(claim, ScalarClaim):
        return _scalar(claim, runs)
    return _share(claim, runs)


def _success(what: Reproduction, claim: SuccessClaim, runs: Runs) -> Finding:
    columns = range(len(what.columns)) if claim.columns is None else claim.columns
    sides = [
        joined([runs.sample(what.columns[i], cell) for i in columns])
        for cell in (claim.more, claim.less)
    ]
    printed = _printed(what, claim, columns)
    paper = "" if printed is None else f"{printed:+.1f} points"
    if sides[0] is None or sides[1] is None:
        return Finding(False, math.nan, paper, "")
    found = mixed_effects_rate_difference(sides[0], sides[1])
    low, high = (100 * bound for bound in found.interval[1:])
    ours = f"{100 * found.interval.estimate:+.1f} points [{low:+.1f}, {high:+.1f}]"
    favourable = found.interval.estimate > 0
    seeds = min(found.seeds)
    if seeds < 2:
        return Finding(favourable, math.nan, paper, ours, seeds, lambda _: _ONE_SEED)
    outside = printed is not None and not low <= printed <= high
    half = math.nan
    if printed is not None and printed > 0:
        below = mixed_effects_difference(sides[0] - printed / 200, sides[1])
        half = below.p_value if below.interval.estimate < 0 else 1.0

    def remedy(alpha: float) -> str:
        needed = _seeds_needed(found, abs(printed) if printed else None, alpha)
        return f"the paper's size is outside the interval; {needed}" if outside else needed

    return Finding(favourable, found.p_value, paper, ours, seeds, remedy, half)


def joined(samples: Sequence[FloatArray | None]) -> FloatArray | None:
    """Return samples of several tests as one with all their levels, or None if one is missing."""
    there = [sample for sample in samples if sample is not None]
    if len(there) < len(samples) or not there:
        return None
    seeds = min(len(sample) for sample in there)
    return np.concatenate([sample[:seeds] for sample in there], axis=1)


def _printed(what: Reproduction, claim: SuccessClaim, columns: Sequence[int]) -> float | None:
    """Return the paper's difference in points, mean over columns, or None where it prints none."""
    rows = [what.paper.get(cell) for cell in (claim.more, claim.less)]
    if rows[0] is None or rows[1] is None:
        return None
    gaps = [
        a - b for i in columns if (a := rows[0][i]) is not None and (b := rows[1][i]) is not None
    ]
    return sum(gaps) / len(gaps) if gaps else None


def _seeds_needed(found: Difference, printed: float | None, alpha: float) -> str:
    """Return how many seeds find the paper's difference, or one of 5 points, with a power of 80%."""
    there = min(found.seeds)

    def needed(points: float) -> int | None:
        return seeds_for(
            points / 100, found.variance.seeds * there, found.variance.levels, alpha=alpha
        )

    points = printed or _POINTS
    size = f"{points:.1f} points" if printed is None else f"the paper's {points:.1f} points"
    seeds = needed(points)
    if seeds is None:
        return f"more levels: no number of seeds finds {size} on these"
    if seeds > there:
        return f"{seeds} seeds to find {size} with 80% power"
    smaller = needed(_POINTS) if points > _POINTS else None
    more = f"; {smaller} seeds to find {_POINTS:.1f}" if smaller and smaller > there else ""
    return f"these seeds would have found {size} with 80% power{more}"


def _scalar(claim: ScalarClaim, runs: Runs) -> Finding:
    sides = [
        np.array([scalar_of(r, claim.scalar) for r in runs.of(claim.train, cell)] if cell else [])
        for cell in (claim.more, claim.less)
    ]
    missing = any(
        cell and (not len(v) or not np.isfinite(v).all())
        for cell, v in zip((claim.more, claim.less), sides, strict=True)
    )
    if missing:
        there = claim.scalar == "seconds" and all(runs.of(claim.train, c) for c in _sides(claim))
        # A sweep that takes over the runs of another has no times of them that could be compared.
        if not there:
            return Finding(False, math.nan, claim.paper, "")
        return Finding(
            False,
            math.nan,
            claim.paper,
            "timed in other commands",
            0,
            lambda _: "all cells in one command, with --results of their own",
        )
    means = [float(values.mean()) if len(values) else 0.0 for values in sides]
    ours = " against ".join(_shown(claim, m) for m, v in zip(means, sides, strict=True) if len(v))
    seeds = min(len(values) for values in sides if len(values))
    favourable = means[0] > means[1]
    if seeds < 2:
        return Finding(favourable, math.nan, claim.paper, ours, seeds, lambda _: _ONE_SEED)
    p_value = _p_of_means(sides[0], sides[1])
    return Finding(favourable, p_value, claim.paper, ours, seeds, lambda _: "more seeds")


def _sides(claim: ScalarClaim) -> list[str]:
    return [cell for cell in (claim.more, claim.less) if cell is not None]


def _p_of_means(a: FloatArray, b: FloatArray) -> float:
    """Return the p-value of Welch's test, or of Student's against zero where one side is empty.

    Where the exact permutation of the runs, or of their signs, has a larger one, it is that. Numbers without
    any spread, such as counts of steps, are facts: their p-value is 0.
    """
    one_sided = [values for values in (a, b) if len(values)]
    if all(np.ptp(values) == 0 for values in one_sided):
        return 0.0
    if len(one_sided) == 1:
        by_model = float(stats.ttest_1samp(one_sided[0], 0.0).pvalue)
        return max(by_model, sign_flip_p(one_sided[0]))
    by_model = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    return max(by_model, permutation_p(a, b))


def _shown(claim: ScalarClaim, value: float) -> str:
    if claim.scalar in _CHANGES:
        return f"{100 * math.expm1(value):+.0f}%{_CHANGES[claim.scalar]}"
    if claim.scalar in _CORRELATIONS:
        return f"{value:+.2f}"
    if claim.scalar in ("peak", "last", "clipped"):
        return f"{percent(value)}%"
    return number(value) + (" s" if claim.scalar == "seconds" else "")


def _share(claim: ShareClaim, runs: Runs) -> Finding:
    seen = [happened(r, claim.event) for r in runs.of(claim.train, claim.cell)]
    able = [one for one in seen if one is not None]
    if not seen:
        return Finding(False, math.nan, "", "")
    if not able:
        none = f"none of {len(seen)} runs collapsed"
        return Finding(False, math.nan, "", none, len(seen), lambda _: "longer runs")
    count = sum(able)
    share = wilson(count, len(able))
    ours = f"{count} of {len(able)} runs [{percent(share.low)}%, {percent(share.high)}%]"
    p_value = float(stats.binomtest(count, len(able)).pvalue)
    favourable = (count > len(able) / 2) == claim.most
    return Finding(
        favourable, p_value, "", ours, len(seen), lambda alpha: _runs_needed(len(able), alpha)
    )


def _runs_needed(there: int, alpha: float) -> str:
    """Return how many runs decide if all agree: 2 to the power of 1 - n must be at most alpha."""
    needed = 1 + math.ceil(-math.log2(alpha))
    return f"{needed} runs that agree" if there < needed else "more runs"
