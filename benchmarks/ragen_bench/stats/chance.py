"""Whether an agent is worse than random play whose success on each level is known."""

from collections.abc import Sequence

import numpy as np

from ragen_bench.stats.clusters import Clusters


def at_most_by_chance(successes: int, chances: Sequence[float], clusters: Clusters | None) -> float:
    """Return the probability that random play succeeds at most so often.

    It is exact: the episodes are trials with chances of their own (a Poisson binomial distribution). The
    episodes of a cluster count as one trial that all of them win or lose, for an agent may do the same each
    time; the distribution is then the widest that these chances allow within clusters.

    Args:
        successes: Number of episodes that succeeded.
        chances: Success of random play in each episode, of length n.
        clusters: Which episodes belong together, of shape (n,); None if they are independent.
    """
    groups = np.arange(len(chances)) if clusters is None else clusters
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=chances) / sizes
    distribution = np.ones(1)
    for size, chance in zip(sizes.tolist(), means.tolist(), strict=True):
        lost = np.pad(distribution * (1 - chance), (0, size))
        won = np.pad(distribution * chance, (size, 0))
        distribution = lost + won
    return min(float(distribution[: successes + 1].sum()), 1.0)
