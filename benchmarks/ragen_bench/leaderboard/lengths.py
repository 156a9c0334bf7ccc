"""Success by the length of the shortest solution."""

from typing import NamedTuple

from ragen_bench.evaluation.level_clusters import level_clusters
from ragen_bench.evaluation.run_table import Sample
from ragen_bench.leaderboard.standings import OPTIMUM, Samples
from ragen_bench.stats.intervals import Interval, success_rate


class LengthRow(NamedTuple):
    """One entry's success on the levels of one length."""

    name: str
    length: int
    n: int
    success: Interval


def by_length(samples: Samples) -> list[LengthRow]:
    """Return the success of each entry by length; nothing for games where a plan has no length.

    Those are the games of chance, where no plan is sure, and those with plans of one length only.
    Levels that cannot be solved within the budget have no length.
    """
    lengths = _lengths(samples.get(OPTIMUM, {}))
    if len(set(lengths.values())) < 2:
        return []
    rows = []
    for name, sample in samples.items():
        for length in sorted(set(lengths.values())):
            played = [episode for i, episode in sample.items() if lengths.get(i) == length]
            if played:
                solved = [episode.success for episode in played]
                success = success_rate(solved, level_clusters(played))
                rows.append(LengthRow(name, length, len(played), success))
    return rows


def _lengths(optimum: Sample) -> dict[int | None, int]:
    """Return how many actions the oracle needed, by level."""
    if any(episode.optimal_success not in (0, 1) for episode in optimum.values()):
        return {}
    return {
        index: sum(len(turn.executed) for turn in episode.turns)
        for index, episode in optimum.items()
        if episode.success
    }
