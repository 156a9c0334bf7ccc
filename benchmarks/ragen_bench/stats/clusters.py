"""Cluster episodes by level, because those of one level are not independent of each other.

An agent that reads one prompt twice tends to do the same twice. Where levels repeat, the unit of every
interval and test is therefore the level with all of its episodes.
"""

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Clusters: TypeAlias = npt.NDArray[np.int64]
"""Cluster number of each entry of a sample, from 0 without gaps."""


def number_clusters(keys: Sequence[Hashable]) -> Clusters | None:
    """Return the cluster of each entry, or None where the entries are independent.

    They are if each has a key of its own. They are too if all have the same key: such a sample holds for
    this one level, given which its episodes are independent, and says nothing about other levels.
    """
    numbers: dict[Hashable, int] = {}
    clusters = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return clusters if 1 < len(numbers) < len(clusters) else None


def cluster_sums(values: npt.NDArray[np.float64], clusters: Clusters) -> npt.NDArray[np.float64]:
    """Return the sum of the values of each cluster, of shape (clusters,)."""
    return np.bincount(clusters, weights=values).astype(np.float64)
