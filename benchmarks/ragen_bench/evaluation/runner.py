"""Play what a run still lacks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ragen_agents.policies import AsyncPolicy, Policy
from ragen_agents.rollout import Episode, EpisodeKey, play_batch, play_independently
from ragen_bench.config.agents import chunk_size
from ragen_bench.config.run_config import AgentEntry, ConfigT, RunConfig
from ragen_bench.config.suites import task_spec
from ragen_bench.evaluation.budget import Budget, Metered
from ragen_bench.evaluation.response_cache import Cached
from ragen_bench.evaluation.spending import Ledger
from ragen_bench.runs.directory import RunDirectory
from ragen_bench.runs.picture_files import Pictured


class Report(Protocol):
    """Who is told how far a run is."""

    def start(self, agent: str, task: str, done: int, total: int) -> None:
        """Begin a task of which some episodes are there already."""

    def advance(self, episodes: int) -> None:
        """Count episodes that were played and written."""

    def finish(self) -> None:
        """End the task."""


@dataclass(frozen=True)
class Purse:
    """What asking for replies may cost, and where those are kept that were paid for."""

    ledger: Ledger
    budget: Budget
    cache: Path | None
    """The file of the response cache, or None for none."""


def play_run(
    run: RunDirectory[RunConfig],
    policies: Mapping[str, Policy | AsyncPolicy],
    report: Report,
    purse: Purse,
) -> None:
    """Play every missing episode.

    Args:
        run: The open run.
        policies: The policy of each agent with work left.
        report: Who is told.
        purse: What may be spent.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot go on.
    """
    for agent in run.config.agents:
        policy = policies.get(agent.name)
        if isinstance(policy, AsyncPolicy):
            _play_all(run, agent, policy, report, purse)
            continue
        for task in run.config.suite.tasks:
            _play_task(run, agent.name, policy, task, report, purse.budget)


def equipped(
    policy: AsyncPolicy, agent: AgentEntry, run: RunDirectory[ConfigT], purse: Purse
) -> AsyncPolicy:
    """Return a policy that counts what it spends, keeps replies, and keeps pictures."""
    policy = Metered(policy, purse.ledger, purse.budget)
    if purse.cache is not None and agent.endpoint is not None:
        policy = Cached(policy, purse.cache, agent, run.config.suite.sampling)
    return Pictured(policy, run.folder)


def _play_all(
    run: RunDirectory[RunConfig],
    agent: AgentEntry,
    policy: AsyncPolicy,
    report: Report,
    purse: Purse,
) -> None:
    """Play all tasks of an agent whose episodes do not wait for one another."""
    suite = run.config.suite
    keys = [key for key in run.config.keys if key.agent == agent.name]
    missing = [key for key in keys if key not in run.done]
    report.start(agent.name, f"{len(suite.tasks)} games", len(keys) - len(missing), len(keys))

    def keep(episodes: Sequence[Episode]) -> None:
        run.append(episodes)
        report.advance(len(episodes))

    policy = equipped(policy, agent, run, purse)
    specs = (task_spec(suite, key.task, key.instance or 0) for key in missing)

    async def play() -> None:
        try:
            async with asyncio.timeout(purse.budget.seconds_left):
                await play_independently(specs, policy, suite.seed, keep)
        except TimeoutError:
            purse.budget.check_time()
            raise
        finally:
            await policy.close()

    try:
        asyncio.run(play())
    finally:
        report.finish()


def _play_task(
    run: RunDirectory[RunConfig],
    agent: str,
    policy: Policy | None,
    task: str,
    report: Report,
    budget: Budget,
) -> None:
    suite = run.config.suite
    keys = [EpisodeKey(agent, task, index, 0) for index in range(suite.episodes)]
    report.start(agent, task, sum(key in run.done for key in keys), len(keys))
    if policy is not None:
        size = chunk_size(agent, policy)
        for start in range(0, len(keys), size):
            _play_chunk(run, policy, keys[start : start + size], report, budget)
    report.finish()


def _play_chunk(
    run: RunDirectory[RunConfig],
    policy: Policy,
    keys: list[EpisodeKey],
    report: Report,
    budget: Budget,
) -> None:
    """Play a chunk as a whole if any of it is missing, and write only what is."""
    suite = run.config.suite
    missing = {key for key in keys if key not in run.done}
    if not missing:
        return
    budget.check_time()
    specs = [task_spec(suite, key.task, key.instance) for key in keys if key.instance is not None]
    played: list[Episode] = play_batch(specs, policy, suite.seed)
    run.append([episode for episode in played if episode.key in missing])
    report.advance(len(missing))
