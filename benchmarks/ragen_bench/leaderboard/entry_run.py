"""Read an entry as if it were a run."""

from collections import defaultdict
from pathlib import Path

from ragen_agents.rollout import Episode
from ragen_bench.config.run_config import ENTRY
from ragen_bench.evaluation.run_table import Run, read_run
from ragen_bench.leaderboard.store import read_entry


def read_explainable(folder: Path) -> Run:
    """Read a run of ``ragen bench``, or an entry of the leaderboard as if it were one.

    Raises:
        RagenError: It is neither, or corrupt.
    """
    if not (folder / ENTRY).is_file():
        return read_run(folder)
    stored = read_entry(folder)
    samples: dict[tuple[str, str], dict[int | None, Episode]] = defaultdict(dict)
    for record in stored.records:
        episode = record.episode
        samples[episode.agent, episode.task][episode.instance.index] = episode
    return Run(folder, stored.entry.config, dict(samples), torn=False)
