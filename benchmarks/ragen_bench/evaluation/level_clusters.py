"""Which episodes share a level."""

from collections.abc import Iterable

from ragen_agents.rollout import Episode
from ragen_bench.stats.clusters import Clusters, number_clusters


def level_clusters(episodes: Iterable[Episode]) -> Clusters | None:
    """Return the number of each episode's level; None if no level is shared, or only one is played.

    Levels are the same if they have the same key under the same task, so also if they are turned or, for
    the bandits, show the two arms in the other order.
    """
    return number_clusters([(episode.task, episode.instance.key) for episode in episodes])
