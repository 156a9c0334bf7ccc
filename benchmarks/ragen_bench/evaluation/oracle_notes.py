"""Notes on games whose oracle a run proves wrong."""

from collections.abc import Iterable
from typing import Final

from ragen_agents.rollout import Episode
from ragen_bench.evaluation.run_table import Run

_ORACLE: Final = "oracle"
_CERTAIN: Final = 1 - 1e-9


def oracle_notes(run: Run) -> list[str]:
    """Return a note for each game with an episode that contradicts the optimum of its level.

    An episode that was solved although its optimum is 0, or one that the agent ``oracle`` lost although it
    is 1: either cannot happen under an exact oracle.
    """
    found = []
    for task in run.config.suite.tasks:
        played = {agent: s.values() for (agent, name), s in run.samples.items() if name == task}
        impossible = sum(map(_impossible, played.values()))
        lost = _lost(played.get(_ORACLE, ()))
        if impossible:
            found.append(
                f"{_episodes(impossible)} of {task} solved although the oracle's value is 0: "
                "the oracle is wrong"
            )
        if lost:
            found.append(
                f"{_episodes(lost)} of {task} lost by the oracle although its value is 1: "
                "the oracle is wrong"
            )
    return found


def _impossible(episodes: Iterable[Episode]) -> int:
    return sum(episode.success and episode.optimal_success == 0 for episode in episodes)


def _lost(episodes: Iterable[Episode]) -> int:
    return sum(
        not episode.success and episode.optimal_success >= _CERTAIN and not episode.is_failure
        for episode in episodes
    )


def _episodes(count: int) -> str:
    return f"{count} episode{'s' if count != 1 else ''}"
