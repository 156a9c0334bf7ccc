"""Play what a run still lacks."""

from collections.abc import Mapping
from typing import Protocol

from ragen_agents.policies import Policy
from ragen_agents.rollout import Episode, play_batch
from ragen_bench.agents import chunk_size
from ragen_bench.records import EpisodeKey, key_of
from ragen_bench.runs import RunDirectory
from ragen_bench.suites import task_spec


class Report(Protocol):
    """Who is told how far a run is."""

    def start(self, agent: str, task: str, done: int, total: int) -> None:
        """Begin a task of which some episodes are there already."""

    def advance(self, episodes: int) -> None:
        """Count episodes that were played and written."""

    def finish(self) -> None:
        """End the task."""


def play_run(run: RunDirectory, policies: Mapping[str, Policy], report: Report) -> None:
    """Play every missing episode.

    Args:
        run: The open run.
        policies: The policy of each agent with work left.
        report: Who is told.
    """
    for agent in run.config.agents:
        for task in run.config.suite.tasks:
            _play_task(run, agent.name, policies.get(agent.name), task, report)


def _play_task(
    run: RunDirectory, agent: str, policy: Policy | None, task: str, report: Report
) -> None:
    suite = run.config.suite
    keys = [EpisodeKey(agent, task, index, 0) for index in range(suite.episodes)]
    report.start(agent, task, sum(key in run.done for key in keys), len(keys))
    if policy is not None:
        size = chunk_size(agent, policy)
        for start in range(0, len(keys), size):
            _play_chunk(run, policy, keys[start : start + size], report)
    report.finish()


def _play_chunk(run: RunDirectory, policy: Policy, keys: list[EpisodeKey], report: Report) -> None:
    """Play a chunk as a whole if any of it is missing, and write only what is."""
    suite = run.config.suite
    missing = {key for key in keys if key not in run.done}
    if not missing:
        return
    specs = [task_spec(suite, key.task, key.instance) for key in keys if key.instance is not None]
    played: list[Episode] = play_batch(specs, policy, suite.seed)
    run.append([episode for episode in played if key_of(episode) in missing])
    report.advance(len(missing))
