"""Find the episodes that share a level."""

from collections.abc import Iterable, Mapping, Sequence

from ragen_agents.rollout import Episode
from ragen_bench.stats.clusters import Clusters, number_clusters


def level_clusters(episodes: Iterable[Episode]) -> Clusters | None:
    """Return an index of each episode's level; None if no level is shared, or only one is played.

    Levels are the same if they have the same key, also if they are rotated, if the two arms of a bandit are
    in the other order, or if two games share them.
    """
    return number_clusters([episode.instance.key for episode in episodes])


def shared_levels_note(samples: Mapping[tuple[str, str], Mapping[int | None, Episode]]) -> list[str]:
    """Return a note that names the tasks in which episodes of a run share levels, or nothing."""
    most: dict[str, list[str]] = {}
    for (_, task), sample in samples.items():
        keys = [episode.instance.key for episode in sample.values() if episode.attempt == 0]
        most[task] = max(keys, most.get(task, []), key=len)
    return repeated_levels_note(most, "intervals", "episodes")


def repeated_levels_note(levels: Mapping[str, Sequence[str]], what: str, units: str) -> list[str]:
    """Return a note that names the tasks in which levels repeat, or nothing.

    ``levels`` are, by task, the key of the level of each unit; ``what`` is clustered.
    """
    counts = [
        f"{task} {len(keys)} {units} on {len(set(keys))} levels"
        for task, keys in levels.items()
        if number_clusters(keys) is not None
    ]
    if not counts:
        return []
    return [f"{what} are clustered by level where levels repeat: {', '.join(counts)}"]
