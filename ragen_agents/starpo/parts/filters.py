"""The uncertainty filter and others, chosen by ``filter.kind``; they run before every expensive pass.

A new one is a function, a registration and a test, as for estimators::

    def first_half(batch):
        return range(len(batch.returns) // 2)

    register_filter(GroupFilter("first-half", first_half, "the first half of the groups"))
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_agents.starpo.parts.registry import Part, Registry
from ragen_envs.errors import RagenError

_SAME = 1e-8
"""Standard deviations below this are those of equal returns."""

_ROUNDING = 1e-9
Returns = Sequence[NDArray[np.float64]]
"""The returns of the members of each group; groups may differ in size."""


@dataclass(frozen=True)
class FilterInput:
    """Input of a filter: the groups of an iteration."""

    returns: Returns
    """The returns of the members of each group, one array per group."""
    ratio: float
    """``filter.ratio``, in (0, 1]."""
    seed: int
    """Seed of the filters that draw, different in each iteration."""
    params: Mapping[str, float]
    """The filter's own settings."""


@dataclass(frozen=True)
class GroupFilter(Part):
    """A filter and what it needs."""

    function: Callable[[FilterInput], Iterable[int]]
    """Returns the indices of the groups to keep."""
    needs_group: bool = False
    """Whether it compares the members of a group, so that ``rollout.group_size`` must be at least 2."""


FILTERS: Final[Registry[GroupFilter]] = Registry("filter.kind")
"""All filters by name."""

register_filter = FILTERS.register
"""Add a part of your own, so that settings can name it."""


def apply_filter(
    returns: Returns, kind: str, ratio: float, seed: int, params: Mapping[str, float] | None = None
) -> list[int]:
    """Return the indices of the groups that a filter keeps, ascending.

    The result may be empty: a filter by deviation, other than softmax-top-p, drops groups of equal returns.
    Where there are no groups, because the game failed in all of them, the filter is not asked. ``params`` are
    the filter's own settings that differ from its defaults.

    Raises:
        RagenError: The filter returned something other than different indices of groups.
    """
    if not len(returns):
        return []
    chosen = FILTERS[kind]
    batch = FilterInput(returns, ratio, seed, {**chosen.params, **(params or {})})
    given: Any = chosen.function(batch)
    try:
        kept = sorted(map(operator.index, given))
    except TypeError:
        kept = None
    if kept is None or len(set(kept)) < len(kept) or any(not 0 <= i < len(returns) for i in kept):
        raise RagenError(
            f"filter.kind={kind} returned {given!r:.80}, but must return different indices below "
            f"{len(returns)}"
        )
    return kept


def group_std(returns: Returns) -> NDArray[np.float64]:
    """Return each group's sample standard deviation, (n,) float64; 0 for groups of one."""
    return np.array([r.std(ddof=1) if len(r) > 1 else 0.0 for r in returns])


def _random(batch: FilterInput) -> Iterable[int]:
    order: list[int] = np.random.default_rng(batch.seed).permutation(len(batch.returns)).tolist()
    return order[: _count(batch)]


def _variance_share(batch: FilterInput) -> Iterable[int]:
    order = _by_deviation(batch.returns)
    variance = group_std(batch.returns)[order] ** 2
    return _until(order, variance, batch.ratio * np.sum(variance) - _ROUNDING)


def _top_p(batch: FilterInput) -> Iterable[int]:
    order = _by_deviation(batch.returns)
    std = group_std(batch.returns)[order]
    return _until(order, std, batch.ratio * np.sum(std) - batch.params["eps"])


def _softmax_top_p(batch: FilterInput) -> Iterable[int]:
    std = group_std(batch.returns)
    order = np.argsort(-std, kind="stable").tolist()
    mass = np.exp(std[order] - std.max())
    return _until(order, mass / mass.sum(), batch.ratio - _ROUNDING)


def _min_p(batch: FilterInput) -> Iterable[int]:
    std = group_std(batch.returns)
    return [i for i in _by_deviation(batch.returns) if std[i] >= batch.ratio * std.max()]


def _until(order: list[int], scores: NDArray[np.float64], goal: float) -> list[int]:
    """Return the shortest beginning of ``order`` whose scores reach a sum, at least one group."""
    return order[: int(np.searchsorted(np.cumsum(scores), goal)) + 1]


def _by_deviation(returns: Returns) -> list[int]:
    """Return the groups whose returns differ, largest deviation first; ties in their own order."""
    std = group_std(returns)
    return [i for i in np.argsort(-std, kind="stable").tolist() if std[i] > _SAME]


def _count(batch: FilterInput) -> int:
    return math.ceil(batch.ratio * len(batch.returns) - 1e-9)


for _filter in (
    GroupFilter("none", lambda batch: range(len(batch.returns)), "all groups"),
    GroupFilter(
        "std", lambda batch: _by_deviation(batch.returns)[: _count(batch)],
        "the share `filter.ratio` with the largest deviation of returns (StarPO-S, paper section 4.2; "
        "top-k in RAGEN-2)",
        needs_group=True,
    ),
    GroupFilter(
        "top-p", _top_p,
        "the fewest groups whose deviations add up to the share `filter.ratio` of their sum, less `eps` "
        "(RAGEN-2, linear top-p; published with 0.9)",
        needs_group=True, params={"eps": 0.01},
    ),
    GroupFilter(
        "softmax-top-p", _softmax_top_p,
        "the fewest groups that hold the share `filter.ratio` of the softmax of the deviations; groups of "
        "equal returns count (RAGEN-2, softmax top-p; published with 0.9)",
        needs_group=True,
    ),
    GroupFilter(
        "min-p", _min_p,
        "groups whose deviation is at least `filter.ratio` times the largest (RAGEN-2, min-p)",
        needs_group=True,
    ),
    GroupFilter(
        "variance-share", _variance_share,
        "the fewest groups that hold the share `filter.ratio` of the sum of variances",
        needs_group=True,
    ),
    GroupFilter(
        "nonzero", lambda batch: _by_deviation(batch.returns), "groups whose returns differ",
        needs_group=True,
    ),
    GroupFilter("random", _random, "a random share `filter.ratio`, as a control for the other filters"),
):  # fmt: skip
    register_filter(_filter)
