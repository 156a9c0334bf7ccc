"""Measure what the runs of a sweep solved, and numbers and events of single runs by their curves."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy import stats

from ragen_agents.starpo.math.losses import Term
from ragen_agents.starpo.run.metrics import BUCKETS
from ragen_bench.reproduction.reproduction_config import Column, Event, Scalar
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.stats.mixed_effects import distinct_levels
from ragen_bench.training_sweeps.results import Outcome, TaskResult
from ragen_bench.training_sweeps.sweep_config import Sweep
from ragen_bench.training_sweeps.tasks import POLICY, controls_cell

SECONDS: Final = "seconds/total"
"""The curve of the times of iterations."""
VALIDATION: Final = "validation/success"
WINDOW: Final = 5
"""Iterations over which curves are averaged before anything is read off them."""
_FALLEN: Final = 0.5
"""Below this share of its best, or of where it began, a curve has fallen."""
_HIGH: Final = 0.8
"""A curve begins its fall where it is for the last time above this share of its best."""
_LEAST: Final = 0.05
"""Success in training that a run must have reached before it can fall."""
_GAIN: Final = 0.1
"""Least rise of validation success over the initial model of a run that has gained."""
_STEADY: Final = -0.8
"""Rank correlation of entropy and iteration down to which entropy does not decay steadily."""
_NOTHING_LEFT: Final = 0.01
"""Share of where it began that a curve is taken to have ended at if it ended at 0."""
_SPIKE: Final = 5.0
"""Above this many times the median of the iterations before, and above the norm at which gradients are
clipped, a gradient norm is a spike."""
_VALID: Final = 0.9
"""Share of replies from which on their format is taken to hold."""
_BUCKETS: Final = range(1, BUCKETS + 1)
_NOTHING: Final = 1e-4
"""Gradients whose norms differ by no more are rounding, such as that of the divergence before any step."""
INFORMATION: Final = "information/turns/thought/mutual_information"
_ENTROPY: Final = "information/turns/thought/conditional_entropy"


def curve(result: TaskResult, metric: str) -> tuple[list[int], FloatArray]:
    """Return a metric of a run: the iterations that have it, and its values."""
    values = result.curves.get(metric, [])
    pairs = [(i, v) for i, v in zip(result.iterations, values, strict=False) if v is not None]
    return [i for i, _ in pairs], np.array([v for _, v in pairs], dtype=np.float64)


def smoothed(values: FloatArray, every: int = 1) -> FloatArray:
    """Return means over a window that begins with the first values and is shorter for short curves."""
    width = min(max(1, round(WINDOW / every)), len(values))
    if not width:
        return values
    result: FloatArray = np.convolve(values, np.full(width, 1 / width), mode="valid")
    return result


def scalar_of(result: TaskResult, scalar: Scalar) -> float:
    """Return a number of one run, or nan where it has none.

    ``seconds``: of an iteration, without evaluations. ``thought``, ``reply``, ``deviation``, ``kept``:
    natural logarithm of the thought's characters, of the reply's tokens, of the in-group deviation of
    returns, or of the groups kept, at the end over that at the start, at least that of 1%. ``template``:
    share of the replies with the commonest thought, at the end less that at the start. ``first-move``: share
    of thoughts whose first move leads where they say, at the end. ``peak``: the best
    validation success. ``fall``: of a run that gained on validation, the iteration after which success there
    stays below half of its best, or the last one. ``information-success`` and ``entropy-success``: Spearman's
    correlation over the iterations between success and the mutual information of thought and prompt, or the
    thought's entropy given the prompt; ``information-over-entropy``: the first less the second.
    ``policy-rise``, ``entropy-rise``, ``divergence-rise``: Spearman's correlation over the buckets of the
    gradient probe between the deviation of returns and the norm of this term's gradient, mean over probes.
    """
    return float(_SCALARS[scalar](result))


def _seconds(result: TaskResult) -> float:
    _, total = curve(result, SECONDS)
    _, evaluating = curve(result, "seconds/evaluation")
    count = result.iterations[-1] if result.iterations else 0
    return float(total.sum() - evaluating.sum()) / count if len(total) and count else math.nan


def _change(metric: str, result: TaskResult) -> float:
    values = smoothed(curve(result, metric)[1])
    defined = len(values) > 1 and values[0] > 0
    return math.log(max(values[-1] / values[0], _NOTHING_LEFT)) if defined else math.nan


def _gain(metric: str, result: TaskResult) -> float:
    values = smoothed(curve(result, metric)[1])
    return float(values[-1] - values[0]) if len(values) > 1 else math.nan


def _with_success(metric: str, result: TaskResult) -> float:
    success = dict(zip(*curve(result, "success"), strict=True))
    iterations, values = curve(result, metric)
    pairs = [(v, success[i]) for i, v in zip(iterations, values, strict=True) if i in success]
    both = np.array(pairs).reshape(-1, 2)
    if len(both) < WINDOW or not np.ptp(both, axis=0).all():
        return math.nan
    return float(stats.spearmanr(both[:, 0], both[:, 1]).statistic)


def _rise(term: Term, result: TaskResult) -> float:
    deviation, norm = (_by_probe(result, name) for name in ("reward_std", term))
    probes = [(deviation[i], norm[i]) for i in deviation if i in norm]
    correlations = [
        float(stats.spearmanr(deviations, norms).statistic)
        for deviations, norms in probes
        if np.ptp(deviations) > 0 and np.ptp(norms) > _NOTHING
    ]
    return float(np.mean(correlations)) if correlations else math.nan


def _by_probe(result: TaskResult, name: str) -> dict[int, FloatArray]:
    """Return a number of each bucket, by the probe's iteration; probes with fewer are left out."""
    curves = [dict(zip(*curve(result, f"gradient/bucket{k}/{name}"), strict=True)) for k in _BUCKETS]
    whole = set.intersection(*map(set, curves))
    return {i: np.array([values[i] for values in curves]) for i in sorted(whole)}


def _fall(result: TaskResult) -> float:
    if not gained(result):
        return math.nan
    at = collapsed_at(result)
    return float(curve(result, VALIDATION)[0][-1] if at is None else at)


_SCALARS: Final[Mapping[Scalar, Callable[[TaskResult], float]]] = {
    "seconds": _seconds,
    "thought": partial(_change, "thought_characters"),
    "reply": partial(_change, "reply_tokens"),
    "template": partial(_gain, "template_share"),
    "deviation": partial(_change, "reward_std"),
    "kept": partial(_change, "kept_groups"),
    "first-move": lambda result: next(reversed(smoothed(curve(result, "claims/move_1")[1])), math.nan),
    "peak": lambda result: max(curve(result, VALIDATION)[1], default=math.nan),
    "fall": _fall,
    "information-success": partial(_with_success, INFORMATION),
    "entropy-success": partial(_with_success, _ENTROPY),
    "information-over-entropy": lambda r: _with_success(INFORMATION, r) - _with_success(_ENTROPY, r),
    "policy-rise": partial(_rise, "policy"),
    "entropy-rise": partial(_rise, "entropy"),
    "divergence-rise": partial(_rise, "divergence"),
}


def fell_at(result: TaskResult) -> int | None:
    """Return the last iteration before success in training stayed below half of its best, or None."""
    iterations, means = _means(result, "success")
    if not len(means) or means.max() < _LEAST or means[-1] >= _FALLEN * means.max():
        return None
    return _last_above(iterations, means, _FALLEN)


def gained(result: TaskResult) -> bool | None:
    """Return whether validation success rose over the initial model's; None without validation.

    By ten points, and to above exact random play, where that is known; in both by two standard errors,
    where the levels are so few that these are more. A policy below random play that comes to ignore its
    prompt rises too.
    """
    iterations, values = curve(result, VALIDATION)
    if len(values) < 3 or iterations[0] > 0:
        return None
    error = math.sqrt(0.5 / result.task.train.evaluation.episodes)
    outcomes = next(iter(result.outcomes.values()), {})
    chance = outcomes[result.task.game].random if result.task.game in outcomes else None
    least = max(values[0] + max(_GAIN, 2 * error), (chance or 0.0) + math.sqrt(2) * error)
    return bool(values.max() >= least)


def collapsed_at(result: TaskResult) -> int | None:
    """Return the last iteration before validation success stayed below half of its best.

    None where it did not, and where it had not gained before.
    """
    iterations, values = curve(result, VALIDATION)
    if not gained(result) or values[-1] >= _FALLEN * values.max():
        return None
    return _last_above(iterations, values, _FALLEN)


def happened(result: TaskResult, event: Event) -> bool | None:
    """Return whether something happened in a run; None where it could not, or was not measured.

    ``collapse``: of a run that gained on validation, success there ended below half of its best.
    ``entropy-decays``: in a run that gained and did not collapse, the entropy of tokens decays steadily: its
    rank correlation with the iteration is at most -0.8. In a run that collapsed: ``entropy-wanders``: it does
    not decay steadily; ``deviation-first``, ``information-first``: the in-group deviation of the return, or
    the mutual information of thought and prompt, begins its fall before validation success does, by more than
    the iterations between two validations, ``deviation-together``: by no more either way; ``gradient-spike``:
    the gradient norm of an iteration is above five times the median of the five before, and above the norm at
    which gradients are clipped, iterations of equal returns left out; ``valid-template``: at the end that
    information is below half of where it began, while at least 90% of the replies are valid.
    """
    if not gained(result):
        return None
    collapsed = collapsed_at(result) is not None
    if event == "collapse":
        return collapsed
    if event in ("entropy-wanders", "entropy-decays"):
        iterations, means = _means(result, "entropy")
        if collapsed != (event == "entropy-wanders") or len(means) < WINDOW:
            return None
        decays = bool(np.ptp(means) and stats.spearmanr(iterations, means).statistic <= _STEADY)
        return decays != (event == "entropy-wanders")
    if not collapsed:
        return None
    if event == "gradient-spike":
        spikes = _spikes(result)
        return None if spikes is None else bool(spikes)
    if event != "valid-template":
        return _falls(result, event)
    _, information = _means(result, INFORMATION)
    _, valid = _means(result, "valid")
    if not len(information) or not len(valid) or information[0] <= 0:
        return None
    return bool(information[-1] < _FALLEN * information[0] and valid[-1] >= _VALID)


def _falls(result: TaskResult, event: Event) -> bool | None:
    """Return whether a metric begins its fall before validation success does, or together with it."""
    metric = INFORMATION if event == "information-first" else "reward_std"
    iterations, means = _means(result, metric)
    validated, values = curve(result, VALIDATION)
    if not len(means) or means.max() <= 0:
        return None
    lead = _last_above(validated, values, _HIGH) - _last_above(iterations, means, _HIGH)
    every = validated[-1] - validated[-2]
    return abs(lead) <= every if event == "deviation-together" else lead > every


def _last_above(iterations: list[int], values: FloatArray, share: float) -> int:
    """Return the last iteration at which a curve is at least at a share of its best."""
    return iterations[int(np.flatnonzero(values >= share * values.max())[-1])]


def _spikes(result: TaskResult) -> list[int] | None:
    """Return the iterations whose gradient norm is far above those before it; None without enough."""
    deviation = dict(zip(*curve(result, "reward_std"), strict=True))
    pairs = [(i, v) for i, v in zip(*curve(result, "grad_norm"), strict=True) if deviation.get(i, 1.0) > 0]
    norms = np.array([v for _, v in pairs])
    if len(norms) <= WINDOW:
        return None
    usual = np.median(np.lib.stride_tricks.sliding_window_view(norms, WINDOW)[:-1], axis=1)
    least = np.maximum(_SPIKE * usual, result.task.train.update.max_grad_norm)
    return [pairs[WINDOW + k][0] for k in np.flatnonzero(norms[WINDOW:] > least)]


def sign_at(result: TaskResult, sign: str) -> int | None:
    """Return the iteration at which a run that gained and then collapsed shows a sign of Figure 6.

    A spike is its first iteration; deviation and return begin to fall after they were for the last time above
    80% of their best. None where the run did not collapse, or lacks the sign.
    """
    if collapsed_at(result) is None:
        return None
    if sign == "gradient norm has a spike":
        return next(iter(_spikes(result) or []), None)
    iterations, means = _means(result, {"return turns down": "return"}.get(sign, "reward_std"))
    return _last_above(iterations, means, _HIGH) if len(means) and means.max() > 0 else None


def _means(result: TaskResult, metric: str) -> tuple[list[int], FloatArray]:
    """Return a smoothed curve and the last iteration of each window."""
    iterations, values = curve(result, metric)
    every = iterations[1] - iterations[0] if len(iterations) > 1 else 1
    means = smoothed(values, every)
    return iterations[len(values) - len(means) :], means


UNDECIDING: Final = (1, 2, 3)
"""Numbers of seeds with which nothing is decided: the smallest p-value of three against three is 0.10."""


@dataclass(frozen=True)
class Runs:
    """All results of a sweep that are there."""

    sweep: Sweep
    results: Sequence[TaskResult]

    def of(self, game: str, cell: str) -> list[TaskResult]:
        """Return the trained runs of a cell by seed."""
        runs = [
            r for r in self.results
            if r.task.game == game and r.task.cell == cell and r.task.seed is not None
        ]  # fmt: skip
        return sorted(runs, key=lambda result: result.task.seed or 0)

    def correction(self, cells: Iterable[tuple[str, str]], curve: str = "", further: int = 0) -> int:
        """Return the factor of p-values on cells, pairs (game, cell): doubled each time seeds were added.

        It is also doubled each time runs of a cell were replaced.

        Only runs with the curve count, if one is named. With ``further`` it is what the factor will be once
        seeds have been added that many times more.

        Verdicts on n seeds, and on more only if these decided nothing, are false with a chance of up to
        5% + 5% / 2 + 5% / 4 + ..., so never above 10%, however often seeds are added and why.
        """
        looks = [
            max(len(self._counts(cell, curve)) + further, 1) + self.sweep.replaced.get("/".join(cell), 0)
            for cell in cells
        ]
        return int(2 ** (max(looks, default=1) - 1))

    def extended(self, games: Container[str]) -> dict[tuple[str, str], list[int]]:
        """Return the numbers of seeds of cells to which seeds were added, by game and cell; 0 is unknown."""
        cells = {(r.task.game, r.task.cell): None for r in self.results if r.task.game in games}
        return {cell: self._counts(cell) for cell in cells if len(self._counts(cell)) > 1}

    def _counts(self, cell: tuple[str, str], curve: str = "") -> list[int]:
        """Return the numbers of seeds that a cell had whenever verdicts on it could be made."""
        runs = [r for r in self.of(*cell) if not curve or curve in r.curves]
        return sorted({r.seeds or 0 for r in runs if r.seeds not in UNDECIDING})

    def sample(self, column: Column, cell: str) -> FloatArray | None:
        """Return the test outcomes of a cell, (seeds, distinct levels), or None without any."""
        return sample_of([r.outcomes[POLICY][column.test] for r in self.of(column.train, cell)])

    def control(self, column: Column, cell: str, agent: str) -> FloatArray | None:
        """Return the outcomes of a control under a cell's settings, (1, distinct levels), or None."""
        controls = self._controls(column, cell)
        return None if controls is None else sample_of([controls.outcomes[agent][column.test]])

    def chance(self, column: Column, cell: str) -> float:
        """Return the success of random play under a cell's settings, exact or sampled; nan if not known."""
        exact = self.exact_chance(column, cell)
        sample = self.control(column, cell, "random")
        return exact if math.isfinite(exact) or sample is None else float(sample.mean())

    def exact_chance(self, column: Column, cell: str) -> float:
        """Return the exact success of random play under a cell's settings; nan if it is not known."""
        controls = self._controls(column, cell)
        known = None if controls is None else controls.outcomes["random"][column.test].random
        return math.nan if known is None else known

    def optimum(self, column: Column, cell: str) -> float:
        """Return the best possible chance of success under a cell's settings; nan if it is not known."""
        controls = self._controls(column, cell)
        known = None if controls is None else controls.outcomes["oracle"][column.test].optimal
        return math.nan if known is None else known

    def _controls(self, column: Column, cell: str) -> TaskResult | None:
        wanted = (column.train, controls_cell(self.sweep, cell), None)
        matching = (r for r in self.results if (r.task.game, r.task.cell, r.task.seed) == wanted)
        return next(matching, None)


def sample_of(outcomes: Sequence[Outcome]) -> FloatArray | None:
    """Return outcomes of one test as one sample, (outcomes, distinct levels), or None without any."""
    if not outcomes:
        return None
    solved = [[float(c) for c in outcome.success] for outcome in outcomes]
    return distinct_levels(solved, outcomes[0].levels)
