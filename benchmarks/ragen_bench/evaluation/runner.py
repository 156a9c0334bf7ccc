"""Play the missing episodes of a run."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ragen_agents.policies import AsyncPolicy, Policy
from ragen_agents.rollout import Episode, EpisodeKey, play_batch, play_independently
from ragen_bench.config.agents import chunk_size
from ragen_bench.config.run_config import AgentEntry, ConfigT, RunConfig
from ragen_bench.config.suites import Suite, task_spec
from ragen_bench.evaluation.blocking import run_blocking
from ragen_bench.evaluation.budget import Budget, Metered
from ragen_bench.evaluation.response_cache import Cached
from ragen_bench.evaluation.spending import Ledger
from ragen_bench.runs.directory import RunDirectory
from ragen_bench.runs.picture_files import Pictured


class RunObserver(Protocol):
    """Receives the progress of a run."""

    def start(self, agent: str, task: str, done: int, total: int) -> None:
        """Start a task of which some episodes may already exist."""

    def advance(self, episodes: int) -> None:
        """Count episodes that were played and written."""

    def finish(self) -> None:
        """End the task."""


@runtime_checkable
class ChunkPlayer(Protocol):
    """Plays chunks of episodes elsewhere."""

    batch_size: int
    """Levels of a chunk, as the agent's policy asks for."""

    def play_chunks(
        self, chunks: Iterable[Sequence[EpisodeKey]], suite: Suite
    ) -> Iterator[list[Episode]]:
        """Yield the episodes of each chunk, in their order."""


Player = Policy | AsyncPolicy | ChunkPlayer
"""What plays the episodes of an agent."""


@dataclass(frozen=True)
class RunLimits:
    """What a run may spend on replies, and where paid replies are cached."""

    ledger: Ledger
    budget: Budget
    cache: Path | None
    """File of the response cache, or None."""


def play_run(
    run: RunDirectory[RunConfig],
    players: Mapping[str, Player],
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    """Play every missing episode.

    Args:
        run: The open run.
        players: Of each agent with work left.
        observer: Receives the progress.
        limits: What the run may spend.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot continue.
    """
    for agent in run.config.agents:
        player = players.get(agent.name)
        if isinstance(player, AsyncPolicy):
            _play_all(run, agent, player, observer, limits)
            continue
        for task in run.config.suite.tasks:
            _play_task(run, agent.name, player, task, observer, limits.budget)


def wrap_policy(
    policy: AsyncPolicy, agent: AgentEntry, run: RunDirectory[ConfigT], limits: RunLimits
) -> AsyncPolicy:
    """Wrap a policy so that it counts its spending, caches replies and saves pictures."""
    policy = Metered(policy, limits.ledger, limits.budget)
    if limits.cache is not None and agent.endpoint is not None:
        policy = Cached(policy, limits.cache, agent, run.config.suite.sampling)
    return Pictured(policy, run.folder)


def _play_all(
    run: RunDirectory[RunConfig],
    agent: AgentEntry,
    policy: AsyncPolicy,
    observer: RunObserver,
    limits: RunLimits,
) -> None:
    """Play all tasks of an agent whose episodes do not wait for one another."""
    suite = run.config.suite
    keys = [key for key in run.config.keys if key.agent == agent.name]
    missing = [key for key in keys if key not in run.done]
    games = f"{len(suite.tasks)} game{'s' if len(suite.tasks) != 1 else ''}"
    observer.start(agent.name, games, len(keys) - len(missing), len(keys))

    def keep(episodes: Sequence[Episode]) -> None:
        run.append(episodes)
        observer.advance(len(episodes))

    policy = wrap_policy(policy, agent, run, limits)
    specs = (task_spec(suite, key.task, key.instance or 0, key.attempt) for key in missing)

    async def play() -> None:
        try:
            async with asyncio.timeout(limits.budget.seconds_left):
                await play_independently(specs, policy, suite.seed, keep)
        except TimeoutError:
            limits.budget.check_time()
            raise
        finally:
            await policy.close()

    try:
        run_blocking(play)
    finally:
        observer.finish()


def _play_task(
    run: RunDirectory[RunConfig],
    agent: str,
    player: Policy | ChunkPlayer | None,
    task: str,
    observer: RunObserver,
    budget: Budget,
) -> None:
    keys = run.config.keys_of(agent, task)
    observer.start(agent, task, sum(key in run.done for key in keys), len(keys))
    if player is not None:
        _play_chunks(
            run,
            player,
            _missing_chunks(run, keys, chunk_size(agent, player.batch_size)),
            observer,
            budget,
        )
    observer.finish()


def _missing_chunks(
    run: RunDirectory[RunConfig], keys: list[EpisodeKey], size: int
) -> list[list[EpisodeKey]]:
    """Return the chunks of which something is missing. Each is played as a whole."""
    chunks = [keys[start : start + size] for start in range(0, len(keys), size)]
    return [chunk for chunk in chunks if any(key not in run.done for key in chunk)]


def _play_chunks(
    run: RunDirectory[RunConfig],
    player: Policy | ChunkPlayer,
    chunks: list[list[EpisodeKey]],
    observer: RunObserver,
    budget: Budget,
) -> None:
    """Play chunks, and write what is missing of them."""
    suite = run.config.suite
    if isinstance(player, ChunkPlayer):
        played = player.play_chunks(chunks, suite)
    else:
        played = _play_here(player, chunks, suite)
    for _ in chunks:
        budget.check_time()
        episodes = [episode for episode in next(played) if episode.key not in run.done]
        run.append(episodes)
        observer.advance(len(episodes))


def _play_here(
    policy: Policy, chunks: Iterable[Sequence[EpisodeKey]], suite: Suite
) -> Iterator[list[Episode]]:
    for chunk in chunks:
        yield play_chunk(policy, chunk, suite)


def play_chunk(policy: Policy, keys: Sequence[EpisodeKey], suite: Suite) -> list[Episode]:
    """Play the episodes of a chunk together."""
    specs = [task_spec(suite, key.task, key.instance or 0, key.attempt) for key in keys]
    return play_batch(specs, policy, suite.seed)
