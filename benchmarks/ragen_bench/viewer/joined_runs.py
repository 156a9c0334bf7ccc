"""Several runs as one, so that their agents can be seen side by side."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from ragen_agents.policies import CONTROLS
from ragen_bench.evaluation.pairing import Side, check_versions, pair_episodes
from ragen_bench.evaluation.run_table import Run, incomplete
from ragen_envs.game.errors import RagenError


class JoinedRuns(NamedTuple):
    """What is shown of one or several runs."""

    title: str
    """Their folders."""
    run: Run
    """The agents and episodes of all of them. An agent whose name occurs in several runs is ``RUN:AGENT``."""
    controls: frozenset[str]
    """The agents that are controls, by these names."""
    unfinished: tuple[str, ...]
    """What is missing of interrupted runs."""


def join_runs(runs: Sequence[Run]) -> JoinedRuns:
    """Return runs, at least one, as one.

    Raises:
        RagenError: A run is given twice, or two runs cannot be compared: they are of different suite
            versions or splits, have no level in common, or a game was played under other settings.
    """
    for a, b in combinations(runs, 2):
        _check_pair(a, b)
    names = _distinct_names(runs)
    controls = frozenset(name for side, name in names.items() if side[1] in CONTROLS)
    title = ", ".join(str(run.folder) for run in runs)
    joined = _joined(runs, names) if len(runs) > 1 else runs[0]
    return JoinedRuns(title, joined, controls, tuple(_unfinished(runs)))


def _unfinished(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        which = f"{run.folder}: " if len(runs) > 1 else ""
        for note in incomplete(run.missing, len(run.config.keys), run.torn):
            yield f"{which}{note}"


def _check_pair(a: Run, b: Run) -> None:
    if a.folder.resolve() == b.folder.resolve():
        raise RagenError(f"'{b.folder}' is given twice")
    check_versions(a, b)
    pairs = [pair_episodes(one, other, task) for one, other, task in _sides(a, b)]
    if not any(pairs):
        raise RagenError(f"{a.folder} and {b.folder} have no level in common")


def _sides(a: Run, b: Run) -> Iterator[tuple[Side, Side, str]]:
    for one, task in a.samples:
        for other, same in b.samples:
            if task == same:
                yield Side(a, one), Side(b, other), task


def _distinct_names(runs: Sequence[Run]) -> dict[tuple[int, str], str]:
    """Return a name for each agent by the number of its run and its name there."""
    entries = [(i, agent.name) for i, run in enumerate(runs) for agent in run.config.agents]
    counts = Counter(name for _, name in entries)
    return {
        (i, name): name if counts[name] == 1 else str(Side(runs[i], name)) for i, name in entries
    }


def _joined(runs: Sequence[Run], names: dict[tuple[int, str], str]) -> Run:
    first = runs[0]
    agents = [
        entry.model_copy(update={"name": names[i, entry.name]})
        for i, run in enumerate(runs)
        for entry in run.config.agents
    ]
    tasks = {name: task for run in runs for name, task in run.config.suite.tasks.items()}
    suite = first.config.suite.model_copy(update={"tasks": tasks})
    samples = {
        (names[i, agent], task): {
            key: episode.model_copy(update={"agent": names[i, agent]})
            for key, episode in sample.items()
        }
        for i, run in enumerate(runs)
        for (agent, task), sample in run.samples.items()
    }
    config = first.config.model_copy(update={"agents": agents, "suite": suite})
    return Run(first.folder, config, samples, torn=any(run.torn for run in runs))
