"""Which groups of an iteration are learned from. Filtering comes before every expensive pass."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FilterKind = Literal["none", "std", "variance-share", "nonzero", "random"]

_SAME = 1e-8


def keep_groups(
    returns: Sequence[NDArray[np.float64]], kind: FilterKind, keep: float, seed: int
) -> list[int]:
    """Return the indices of the groups that are kept, ascending.

    Args:
        returns: Of each group, the returns of its members, any number of them.
        kind: ``none``: all groups. ``std``: the share ``keep`` with the largest standard deviation
            (StarPO-S, paper section 4.2). ``variance-share``: the fewest groups that hold the share
            ``keep`` of all variance (RAGEN-2, top-p). ``nonzero``: groups whose returns differ.
            ``random``: a random share ``keep``, the control of the others.
        keep: In (0, 1]; shares of a number of groups are rounded up.
        seed: Of ``random``.

    Groups of one, and groups of equal returns, have standard deviation 0; only ``none`` and ``random`` keep
    them, so the result may be empty. Ties go to the group that comes first.
    """
    count = len(returns)
    if kind == "none":
        return list(range(count))
    most = math.ceil(keep * count - 1e-9)
    if kind == "random":
        return sorted(np.random.default_rng(seed).permutation(count)[:most].tolist())
    spread = np.array([r.std(ddof=1) if len(r) > 1 else 0.0 for r in returns])
    order = [i for i in np.argsort(-spread, kind="stable").tolist() if spread[i] > _SAME]
    if kind == "std":
        order = order[:most]
    elif kind == "variance-share" and order:
        share = np.cumsum(spread[order] ** 2) / np.sum(spread[order] ** 2)
        order = order[: int(np.searchsorted(share, keep - 1e-9)) + 1]
    return sorted(order)
