"""Measure numbers and events of single runs by their curves of training."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from scipy import stats

from ragen_agents.starpo.run.gradient_probe import BUCKETS
from ragen_agents.starpo.update.loss import Term
from ragen_bench.reproduction.reproduction_config import Event, Scalar
from ragen_bench.stats.intervals import FloatArray
from ragen_bench.training_sweeps.results import TaskResult

SECONDS: Final = "seconds/total"
"""The curve of the times of iterations."""
WINDOW: Final = 5
"""Iterations over which curves are averaged before anything is read off them."""
_FALLEN: Final = 0.5
"""Below this share of its best, or of where it began, a curve has fallen."""
_LEAST: Final = 0.05
"""Success that a run must have reached before it can collapse."""
_NOTHING_LEFT: Final = 0.01
"""Share of where it began that a curve is taken to have ended at if it ended at 0."""
_SPIKE: Final = 5.0
"""Above this many times the median of the iterations before, a gradient norm is a spike."""
_VALID: Final = 0.9
"""Share of replies from which on their format is taken to hold."""
_BUCKETS: Final = range(1, BUCKETS + 1)
_NOTHING: Final = 1e-4
"""Gradients whose norms differ by no more are rounding, such as that of the divergence before any step."""
_INFORMATION: Final = "information/first/thought/mutual_information"
_ENTROPY: Final = "information/first/thought/conditional_entropy"


def curve(result: TaskResult, metric: str) -> tuple[list[int], FloatArray]:
    """Return a metric of a run: the iterations that have it, and its values."""
    values = result.curves.get(metric, [])
    pairs = [(i, v) for i, v in zip(result.iterations, values, strict=False) if v is not None]
    return [i for i, _ in pairs], np.array([v for _, v in pairs], dtype=np.float64)


def smoothed(values: FloatArray, every: int = 1) -> FloatArray:
    """Return means over a window that begins with the first values and is shorter for short curves.

    Args:
        values: Of a curve.
        every: Iterations from one value to the next.
    """
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
    share of the replies with the commonest thought, at the end less that at the start. ``peak`` and
    ``last``: the best and the last mean success of training. ``clipped``: mean share of tokens that the clip
    cut. ``updates``: optimizer steps. ``information-success`` and ``entropy-success``: Spearman's correlation
    over the iterations between success and the mutual information of thought and prompt, or the thought's
    entropy given the prompt; ``information-over-entropy``: the first less the second. ``policy-rise``,
    ``entropy-rise``, ``divergence-rise``: Spearman's correlation over the buckets of the gradient probe
    between the deviation of returns and the norm of this term's gradient, mean over probes;
    ``policy-over-entropy``: the first less the second.
    """
    value = _SCALARS[scalar](result)
    return float(value)


def _seconds(result: TaskResult) -> float:
    _, total = curve(result, SECONDS)
    _, evaluating = curve(result, "seconds/evaluation")
    count = result.iterations[-1] if result.iterations else 0
    return float(total.sum() - evaluating.sum()) / count if len(total) and count else math.nan


def _change(metric: str) -> Callable[[TaskResult], float]:
    def change(result: TaskResult) -> float:
        values = smoothed(curve(result, metric)[1])
        defined = len(values) > 1 and values[0] > 0
        return math.log(max(values[-1] / values[0], _NOTHING_LEFT)) if defined else math.nan

    return change


def _gain(result: TaskResult, metric: str) -> float:
    values = smoothed(curve(result, metric)[1])
    return float(values[-1] - values[0]) if len(values) > 1 else math.nan


def _success(result: TaskResult) -> FloatArray:
    return smoothed(curve(result, "success")[1])


def _mean(metric: str) -> Callable[[TaskResult], float]:
    def mean(result: TaskResult) -> float:
        values = curve(result, metric)[1]
        return float(values.mean()) if len(values) else math.nan

    return mean


def _with_success(metric: str) -> Callable[[TaskResult], float]:
    def correlation(result: TaskResult) -> float:
        success = dict(zip(*curve(result, "success"), strict=True))
        iterations, values = curve(result, metric)
        pairs = [(v, success[i]) for i, v in zip(iterations, values, strict=True) if i in success]
        both = np.array(pairs).reshape(-1, 2)
        if len(both) < WINDOW or not np.ptp(both, axis=0).all():
            return math.nan
        return float(stats.spearmanr(both[:, 0], both[:, 1]).statistic)

    return correlation


def _rise(term: Term) -> Callable[[TaskResult], float]:
    def rise(result: TaskResult) -> float:
        deviation, norm = (_by_probe(result, name) for name in ("reward_std", term))
        probes = [(deviation[i], norm[i]) for i in deviation if i in norm]
        correlations = [
            float(stats.spearmanr(deviations, norms).statistic)
            for deviations, norms in probes
            if np.ptp(deviations) > 0 and np.ptp(norms) > _NOTHING
        ]
        return float(np.mean(correlations)) if correlations else math.nan

    return rise


def _by_probe(result: TaskResult, name: str) -> dict[int, FloatArray]:
    """Return a number of each bucket, by the probe's iteration; probes with fewer are left out."""
    curves = [
        dict(zip(*curve(result, f"gradient/bucket{k}/{name}"), strict=True)) for k in _BUCKETS
    ]
    whole = set.intersection(*map(set, curves))
    return {i: np.array([values[i] for values in curves]) for i in sorted(whole)}


def _less(
    first: Callable[[TaskResult], float], second: Callable[[TaskResult], float]
) -> Callable[[TaskResult], float]:
    return lambda result: first(result) - second(result)


_SCALARS: Final[Mapping[Scalar, Callable[[TaskResult], float]]] = {
    "seconds": _seconds,
    "thought": _change("thought_characters"),
    "reply": _change("reply_tokens"),
    "template": lambda result: _gain(result, "template_share"),
    "deviation": _change("reward_std"),
    "kept": _change("kept_groups"),
    "peak": lambda result: max(_success(result), default=math.nan),
    "last": lambda result: float(_success(result)[-1]) if len(_success(result)) else math.nan,
    "clipped": _mean("clip_fraction"),
    "updates": lambda result: float(curve(result, "optimizer_steps")[1].sum()),
    "information-success": _with_success(_INFORMATION),
    "entropy-success": _with_success(_ENTROPY),
    "information-over-entropy": _less(_with_success(_INFORMATION), _with_success(_ENTROPY)),
    "policy-rise": _rise("policy"),
    "entropy-rise": _rise("entropy"),
    "divergence-rise": _rise("divergence"),
    "policy-over-entropy": _less(_rise("policy"), _rise("entropy")),
}


_EARLY: Final[Mapping[Event, str]] = {
    "early-sign": "reward_std", "entropy-first": "entropy", "information-first": _INFORMATION,
}  # fmt: skip
"""By event: the metric that falls before success does."""


def collapsed_at(result: TaskResult) -> int | None:
    """Return the last iteration before success stayed below half of its best, or None."""
    iterations, means = _means(result, "success")
    if not len(means) or means.max() < _LEAST or means[-1] >= _FALLEN * means.max():
        return None
    up = np.flatnonzero(means >= _FALLEN * means.max())
    return iterations[int(up[-1])]


def happened(result: TaskResult, event: Event) -> bool | None:
    """Return whether something happened in a run; None where it could not.

    ``collapse``: mean success ended below half of its best. In a run that collapsed, before success had
    fallen, ``early-sign``: the in-group deviation of the return had fallen to half of where it began;
    ``entropy-first``, ``information-first``: so had the entropy of tokens, or the mutual information of
    thought and prompt. In a run that collapsed, ``gradient-spike``: the gradient norm of an iteration was
    above five times the median of the five before; ``valid-template``: at the end that information is below
    half of where it began, while at least 90% of the replies are valid. What was not above 0 when training
    began, as estimates of information can be, cannot fall to half of it.
    """
    last_up = collapsed_at(result)
    if event == "collapse":
        return last_up is not None
    if last_up is None:
        return None
    if event in _EARLY:
        return _halved_before(result, _EARLY[event], last_up)
    if event == "gradient-spike":
        return _spiked(curve(result, "grad_norm")[1])
    _, information = _means(result, _INFORMATION)
    _, valid = _means(result, "valid")
    if not len(information) or not len(valid) or information[0] <= 0:
        return None
    return bool(information[-1] < _FALLEN * information[0] and valid[-1] >= _VALID)


def _halved_before(result: TaskResult, metric: str, last_up: int) -> bool | None:
    """Return whether a metric fell to half of where it began while success was up; None if it began at 0."""
    iterations, means = _means(result, metric)
    if not len(means) or means[0] <= 0:
        return None
    low = np.flatnonzero(means < _FALLEN * means[0])
    return bool(len(low)) and iterations[int(low[0])] <= last_up


def _spiked(norms: FloatArray) -> bool | None:
    """Return whether a norm is far above those before it; None without enough of them."""
    if len(norms) <= WINDOW:
        return None
    usual = np.median(np.lib.stride_tricks.sliding_window_view(norms, WINDOW)[:-1], axis=1)
    return bool((norms[WINDOW:] > _SPIKE * usual).any())


def _means(result: TaskResult, metric: str) -> tuple[list[int], FloatArray]:
    """Return a smoothed curve and the last iteration of each window."""
    iterations, values = curve(result, metric)
    every = iterations[1] - iterations[0] if len(iterations) > 1 else 1
    means = smoothed(values, every)
    return iterations[len(values) - len(means) :], means
