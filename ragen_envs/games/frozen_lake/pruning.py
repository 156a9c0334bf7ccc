"""Compiled removal of dominated value vectors. Importing this module loads numba."""

from typing import Any, Final

import numpy as np

from ragen_envs.compiled.compiling import jit

TOLERANCE: Final = 1e-13
"""By how much a vector may exceed another one and still count as dominated: rounding only."""


@jit
def undominated(vectors: Any, order: Any, limit: Any) -> Any:
    """Return which vectors no other one dominates, and how many pairs were compared.

    Args:
        vectors: (n, cells) float64.
        order: (n,) indices by falling sum, so that no vector is dominated by a later one. Of equal vectors
            the first is kept.
        limit: Pairs after which to stop; the result is then incomplete.

    Returns:
        The indices of the vectors to keep, in the given order, and the number of pairs.
    """
    kept = np.empty(order.shape[0], np.int64)
    count, pairs = 0, 0
    for i in order:
        if pairs > limit:
            break
        dominated = False
        for k in range(count):
            pairs += 1
            dominated = True
            for cell in range(vectors.shape[1]):
                if vectors[i, cell] > vectors[kept[k], cell] + TOLERANCE:
                    dominated = False
                    break
            if dominated:
                break
        if not dominated:
            kept[count] = i
            count += 1
    return kept[:count], pairs
