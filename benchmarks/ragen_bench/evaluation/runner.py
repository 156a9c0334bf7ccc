"""Play the missing episodes of a run."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from anyio.from_thread import start_blocking_portal

from ragen_agents.policies import CONTROLS, AsyncPolicy, BudgetReachedError, Policy
from ragen_agents.rollout import Episode, EpisodeKey, MatchRecord, play_batch, play_independently
from ragen_bench.config.run_config import ConfigT, RunConfig
from ragen_bench.config.suites import Suite, task_spec
from ragen_bench.console.progress import RunProgress
from ragen_bench.evaluation.spending import Budget, Cached, Ledger, Metered
from ragen_bench.runs.directory import RunDirectory, missing_agents, set_errors_aside
from ragen_bench.runs.picture_files import Pictured, PicturedBatch

if TYPE_CHECKING:
    from ragen_bench.evaluation.ray_cluster import RayPlayer

Player: TypeAlias = "Policy | AsyncPolicy | RayPlayer"
CONTROL_CHUNK: Final = 32
"""Levels that controls play between two writes; their replies do not depend on it."""
_LOG: Final = logging.getLogger("ragen.evaluation")


@dataclass(frozen=True)
class RunPlay(Generic[ConfigT]):
    """A run that is being played, by ``ragen bench`` or ``ragen match``, and what it may spend."""

    run: RunDirectory[ConfigT]
    progress: RunProgress
    ledger: Ledger
    budget: Budget
    cache: Path | None
    """File of the response cache, or None."""

    def keep(self, episodes: Sequence[Episode | MatchRecord]) -> None:
        """Write the episodes that are new, and count them."""
        self.progress.advance(self.run.append(episodes))

    def with_pictures(self, name: str, policy: Policy) -> Policy:
        """Wrap a local policy other than a control's so that it saves pictures."""
        return policy if name in CONTROLS else PicturedBatch(policy, self.run.folder)

    def wrap(self, name: str, policy: AsyncPolicy) -> AsyncPolicy:
        """Wrap an agent's policy so that it counts its spending, caches replies and saves pictures."""
        agent = next(agent for agent in self.run.config.agents if agent.name == name)
        policy = Metered(policy, self.ledger, self.budget)
        if self.cache is not None and agent.endpoint is not None:
            policy = Cached(policy, self.cache, agent, self.run.config.suite.sampling)
        return Pictured(policy, self.run.folder)

    def finish(self, work: Callable[[], Awaitable[None]], policies: Iterable[AsyncPolicy]) -> None:
        """Wait for asynchronous work as long as the budget allows, then close its policies.

        Raises:
            BudgetReachedError: The time is over.
        """

        async def within_time() -> None:
            try:
                async with asyncio.timeout(self.budget.seconds_left):
                    await work()
            except TimeoutError:
                self.budget.check_time()
                raise
            finally:
                for policy in policies:
                    await policy.close()

        if not _is_in_loop():
            asyncio.run(within_time())
            return
        with start_blocking_portal() as portal:  # a loop in another thread, as beside a notebook's
            portal.call(within_time)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def play_run(play: RunPlay[RunConfig], players: Mapping[str, Player]) -> None:
    """Play every missing episode.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot continue.
    """
    for agent in play.run.config.agents:
        player = players.get(agent.name)
        if isinstance(player, AsyncPolicy):
            _play_all(play, agent.name, player)
            continue
        for task in play.run.config.suite.tasks:
            _play_task(play, agent.name, player, task)


def _play_all(play: RunPlay[RunConfig], agent: str, policy: AsyncPolicy) -> None:
    """Play all tasks of an agent whose episodes do not wait for one another."""
    config = play.run.config
    suite = config.suite
    keys = [key for key in config.keys if key.agent == agent]
    missing = [key for key in keys if key not in play.run.done]
    games = f"{len(suite.tasks)} game{'s' if len(suite.tasks) != 1 else ''}"
    play.progress.start(agent, games, len(keys) - len(missing), len(keys))
    wrapped = play.wrap(agent, policy)
    specs = (task_spec(suite, key.task, key.instance or 0, key.attempt) for key in missing)
    try:
        play.finish(lambda: play_independently(specs, wrapped, suite.seed, play.keep), [wrapped])
    finally:
        play.progress.finish()


def _play_task(play: RunPlay[RunConfig], agent: str, player: "Policy | RayPlayer | None", task: str) -> None:
    """Play the chunks of a task of which something is missing, each as a whole."""
    suite, done = play.run.config.suite, play.run.done
    keys = play.run.config.keys_of(agent, task)
    play.progress.start(agent, task, sum(key in done for key in keys), len(keys))
    if player is not None:
        # Not what is missing but the policy decides how levels are batched, and so how sums are rounded.
        size = CONTROL_CHUNK if agent in CONTROLS else player.batch_size
        chunks = [keys[start : start + size] for start in range(0, len(keys), size)]
        missing = [chunk for chunk in chunks if any(key not in done for key in chunk)]
        played: Iterator[list[Episode]]
        if hasattr(player, "play_chunks"):
            played = player.play_chunks(missing, suite)
        else:
            pictured = play.with_pictures(agent, player)
            played = (play_chunk(pictured, chunk, suite) for chunk in missing)
        for _ in missing:
            play.budget.check_time()
            play.keep(next(played))
    play.progress.finish()


def play_chunk(policy: Policy, keys: Sequence[EpisodeKey], suite: Suite) -> list[Episode]:
    """Play the episodes of a chunk together."""
    specs = [task_spec(suite, key.task, key.instance or 0, key.attempt) for key in keys]
    return play_batch(specs, policy, suite.seed)


class RunInterrupt(KeyboardInterrupt):
    """Ctrl-C ended a run; the message says what is saved."""


PlayerT = TypeVar("PlayerT")
Play = Callable[[RunPlay[ConfigT], Mapping[str, PlayerT]], None]
"""Plays the missing episodes of a run, as `play_run` does."""
MakePlayers = Callable[[Iterable[str]], Mapping[str, PlayerT]]
"""Makes the players of some agents, such as their policies."""


def play_missing(
    folder: Path,
    config: ConfigT,
    play: Play[ConfigT, PlayerT],
    make_players: MakePlayers[PlayerT],
    budget: Budget,
    cache: Path | None,
    retry_errors: bool = False,
) -> str | None:
    """Play the missing episodes of a run.

    Args:
        folder: The run directory, made if it is not there.
        config: What the run plays.
        play: `play_run`, or that of matches.
        make_players: Loads the agents that have something to play; it is called first, so that a failed
            load changes nothing.
        budget: What may be spent.
        cache: File of the reply cache, or None.
        retry_errors: Play episodes that ended in an error or exceeded the context again.

    Returns:
        Which limit of the budget ended the run early, or None.

    Raises:
        RunInterrupt: Ctrl-C.
        RagenError: The run cannot continue.
    """
    progress = RunProgress()
    try:
        players = make_players(missing_agents(folder, config, retry_errors))
        if retry_errors:
            count = set_errors_aside(folder, config)
            _LOG.info("retrying %d failed episode%s", count, "s" if count != 1 else "")
        with RunDirectory(folder, config) as run:
            ledger = Ledger(folder)
            try:
                with progress.of(len(run.done), len(config.keys)):
                    play(RunPlay(run, progress, ledger, budget, cache), players)
            finally:
                if ledger.tokens:
                    _LOG.info("spent: %s", ledger.summary(budget.prices))
    except BudgetReachedError as stopped:
        return str(stopped)
    except KeyboardInterrupt:
        kept = f"finished episodes are in {folder}, and the same command resumes the run"
        raise RunInterrupt(kept if folder.exists() else "no episode was finished") from None
    return None
