"""Play episodes independently of one another: each asks for its next reply as soon as it has one."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ragen_agents.policies.base import AsyncPolicy, BudgetReachedError
from ragen_agents.rollout.episode import Episode
from ragen_agents.rollout.episode_runner import (
    EpisodeRunner,
    EpisodeSpec,
    checked_reply,
    play_replies,
)
from ragen_envs.game.errors import RagenError

Keep = Callable[[Sequence[Episode]], None]
"""Writes episodes that have ended; called in another thread, one call at a time."""


async def play_independently(
    specs: Iterable[EpisodeSpec], policy: AsyncPolicy, run_seed: int, keep: Keep
) -> None:
    """Play episodes, at most ``policy.concurrency`` at a time, and keep each when it has ended.

    Specs are taken from the iterable as episodes begin, and kept episodes are not held in memory. Requests
    do not depend on which other episodes are open. A policy that raises ends its episode as an error, which
    is a record too.

    Raises:
        BudgetReachedError: The budget allows no more replies. Pending replies were awaited, and the
            episodes that they ended are kept.
        RagenError: Episodes cannot be played or kept; all that had ended before are kept.
    """
    waiting = iter(specs)
    ended: asyncio.Queue[Episode | None] = asyncio.Queue()
    stops: list[BudgetReachedError] = []

    async def work() -> None:
        for spec in waiting:
            try:
                ended.put_nowait(await _play(spec, policy, run_seed))
            except BudgetReachedError as stop:
                stops.append(stop)
                return

    with ThreadPoolExecutor(1) as disk:
        try:
            async with asyncio.TaskGroup() as all_tasks:
                all_tasks.create_task(_write(ended, keep, disk))
                async with asyncio.TaskGroup() as workers:
                    for _ in range(policy.concurrency):
                        workers.create_task(work())
                ended.put_nowait(None)
        except BaseExceptionGroup as group:
            raise _first(group) from None
        finally:
            if left := _take_all(ended):
                disk.submit(keep, left).result()
    if stops:
        raise stops[0]


async def _play(spec: EpisodeSpec, policy: AsyncPolicy, run_seed: int) -> Episode:
    runner = EpisodeRunner(spec, run_seed)
    while runner.end is None:
        started = time.perf_counter()
        try:
            reply = checked_reply(await policy.reply(runner.request()))
        except RagenError:
            raise
        except Exception as error:
            runner.fail(error)
        else:
            waited = time.perf_counter() - started
            play_replies([runner], [reply], waited if reply.seconds is None else reply.seconds)
    return runner.record(policy.name)


async def _write(
    ended: asyncio.Queue[Episode | None], keep: Keep, disk: ThreadPoolExecutor
) -> None:
    """Keep what has ended, all that is there at once, until a None comes."""
    while (first := await ended.get()) is not None:
        batch = [first, *_take_all(ended)]
        await asyncio.get_running_loop().run_in_executor(disk, keep, batch)


def _take_all(ended: asyncio.Queue[Episode | None]) -> list[Episode]:
    """Take the episodes that are there; a None stays last."""
    found: list[Episode] = []
    while not ended.empty():
        episode = ended.get_nowait()
        if episode is None:
            ended.put_nowait(None)
            break
        found.append(episode)
    return found


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
