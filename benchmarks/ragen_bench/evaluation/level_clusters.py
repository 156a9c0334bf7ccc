"""Which episodes share a level."""

from collections.abc import Iterable, Mapping

from ragen_agents.rollout import Episode
from ragen_bench.stats.clusters import Clusters, number_clusters


def level_clusters(episodes: Iterable[Episode]) -> Clusters | None:
    """Return an index of each episode's level; None if no level is shared, or only one is played.

    Levels are the same if they have the same key, also if they are rotated, if the two arms of a bandit are
    in the other order, or if two games share them.
    """
    return number_clusters([episode.instance.key for episode in episodes])


def shared_levels_note(
    samples: Mapping[tuple[str, str], Mapping[int | None, Episode]],
) -> list[str]:
    """Return a note that names the tasks in which episodes share levels, or nothing.

    Args:
        samples: Each agent's episodes by agent and task.
    """
    most: dict[str, Mapping[int | None, Episode]] = {}
    samples = {
        key: {index: e for index, e in sample.items() if e.attempt == 0}
        for key, sample in samples.items()
    }
    for (_, task), sample in samples.items():
        most[task] = max(sample, most.get(task, {}), key=len)
    counts = [
        f"{task} {len(sample)} episodes on {clusters.max() + 1} levels"
        for task, sample in most.items()
        if (clusters := level_clusters(sample.values())) is not None
    ]
    return (
        [f"intervals are clustered by level where levels repeat: {', '.join(counts)}"]
        if counts
        else []
    )
