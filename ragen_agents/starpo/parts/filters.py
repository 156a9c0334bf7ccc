"""Group filters: which groups of an iteration are learned from. They run before every expensive pass.

A new one is a function, a registration and a test, as for estimators::

    def first_half(returns, ratio, seed):
        return range(len(returns) // 2)

    register_filter(GroupFilter("first-half", first_half, "the first half of the groups"))
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_agents.starpo.parts.registry import Registry
from ragen_envs.errors import RagenError

_SAME = 1e-8
"""Standard deviations below this are those of equal returns."""

Returns = Sequence[NDArray[np.float64]]
"""The returns of the members of each group; groups may differ in size."""


@dataclass(frozen=True)
class GroupFilter:
    """A filter and what it needs."""

    name: str
    """Its name in ``filter.kind``."""
    function: Callable[[Returns, float, int], Iterable[int]]
    """Returns the indices of the groups to keep, given the returns, ``filter.ratio`` in (0, 1], and a
    seed for filters that draw."""
    summary: str
    """One line for the documentation, with the source."""
    needs_group: bool = False
    """Whether it compares the members of a group, so that ``rollout.group_size`` must be at least 2."""


FILTERS: Final[Registry[GroupFilter]] = Registry("filter.kind")
"""All filters by name."""

register_filter = FILTERS.register


def keep_groups(returns: Returns, kind: str, ratio: float, seed: int) -> list[int]:
    """Return the indices of the groups that a filter keeps, ascending.

    The result may be empty: a filter by deviation drops groups whose returns are all equal.

    Args:
        returns: The returns of the members of each group.
        kind: Name of a registered filter.
        ratio: Share of the groups to keep, in (0, 1], for the filters that have one.
        seed: Seed of the filters that draw.

    Raises:
        RagenError: The filter returned something other than different indices of groups.
    """
    kept = sorted(FILTERS[kind].function(returns, ratio, seed))
    if len(set(kept)) < len(kept) or any(not 0 <= i < len(returns) for i in kept):
        raise RagenError(
            f"filter.kind={kind} returned {kept}, but must return different indices below {len(returns)}"
        )
    return kept


def group_std(returns: Returns) -> NDArray[np.float64]:
    """Return each group's sample standard deviation, (n,) float64; 0 for groups of one."""
    return np.array([r.std(ddof=1) if len(r) > 1 else 0.0 for r in returns])


def _all(returns: Returns, ratio: float, seed: int) -> Iterable[int]:  # noqa: ARG001
    return range(len(returns))


def _random(returns: Returns, ratio: float, seed: int) -> Iterable[int]:
    order: list[int] = np.random.default_rng(seed).permutation(len(returns)).tolist()
    return order[: _count(returns, ratio)]


def _std(returns: Returns, ratio: float, seed: int) -> Iterable[int]:  # noqa: ARG001
    return _by_deviation(returns)[: _count(returns, ratio)]


def _nonzero(returns: Returns, ratio: float, seed: int) -> Iterable[int]:  # noqa: ARG001
    return _by_deviation(returns)


def _variance_share(returns: Returns, ratio: float, seed: int) -> Iterable[int]:  # noqa: ARG001
    order = _by_deviation(returns)
    if not order:
        return order
    variance = group_std(returns)[order] ** 2
    share = np.cumsum(variance) / np.sum(variance)
    return order[: int(np.searchsorted(share, ratio - 1e-9)) + 1]


def _by_deviation(returns: Returns) -> list[int]:
    """Return the groups whose returns differ, largest deviation first; ties in their own order."""
    std = group_std(returns)
    return [i for i in np.argsort(-std, kind="stable").tolist() if std[i] > _SAME]


def _count(returns: Returns, ratio: float) -> int:
    return math.ceil(ratio * len(returns) - 1e-9)


for _filter in (
    GroupFilter("none", _all, "all groups"),
    GroupFilter(
        "std", _std,
        "the share `filter.ratio` with the largest deviation of returns (StarPO-S, paper section 4.2)",
        needs_group=True,
    ),
    GroupFilter(
        "variance-share", _variance_share,
        "the fewest groups that hold the share `filter.ratio` of all variance (RAGEN-2, top-p)",
        needs_group=True,
    ),
    GroupFilter("nonzero", _nonzero, "groups whose returns differ", needs_group=True),
    GroupFilter("random", _random, "a random share `filter.ratio`, the control of the others"),
):  # fmt: skip
    register_filter(_filter)
