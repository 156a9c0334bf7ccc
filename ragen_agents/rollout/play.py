"""Play episodes with a policy: in lock-step, or independently of one another."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ragen_agents.policies.base import (
    AsyncPolicy,
    BudgetReachedError,
    Policy,
    Releasable,
    Reply,
    Request,
    check_reply,
)
from ragen_agents.policies.controls import Control
from ragen_agents.rollout.episode import Episode
from ragen_agents.rollout.episode_runner import Answer, EpisodeRunner, EpisodeSpec
from ragen_envs.errors import GameError, RagenError, SolverLimitError

Keep = Callable[[Sequence[Episode]], None]
"""Writes episodes that have ended; called in another thread, one call at a time."""


def play_batch(specs: Sequence[EpisodeSpec], policy: Policy, run_seed: int) -> list[Episode]:
    """Play the episodes to their ends and return their records, in the order of the specs.

    A policy that raises ends the open episodes of its batch as errors, which are records too; a control
    only those in which it raises, because there it is the game that fails. Errors in the specs themselves
    (an unknown game or instance, or one that fails before it begins) are raised.
    """
    runners = [EpisodeRunner(spec, run_seed) for spec in specs]
    try:
        while waiting := [runner for runner in runners if runner.end is None]:
            batch = waiting[: policy.batch_size]
            answers = act(policy, [runner.request() for runner in batch])
            for runner, answer in zip(batch, answers, strict=True):
                runner.play(answer)
    finally:
        if isinstance(policy, Releasable):
            policy.release()
    return [runner.record(policy.name) for runner in runners]


def act(policy: Policy, requests: Sequence[Request]) -> list[Answer]:
    """Ask a local policy for a batch of replies.

    What it raises is its answer to every request of the batch; a control is asked again for each.
    """
    started = time.perf_counter()
    try:
        replies = policy.act(requests)
        if not isinstance(replies, Sequence) or len(replies) != len(requests):
            raise TypeError(
                f"the policy returned {replies!r:.80} for {len(requests)} requests, but must return a list "
                "of as many Reply"
            )
    except Exception as error:
        if isinstance(error, RagenError) and not isinstance(error, GameError | SolverLimitError):
            raise
        if len(requests) > 1 and isinstance(policy, Control):
            return [answer for request in requests for answer in act(policy, [request])]
        return [Answer(error, 0.0) for _ in requests]
    seconds = (time.perf_counter() - started) / len(requests)
    return [Answer(_checked(reply), seconds) for reply in replies]


def _checked(reply: Reply) -> Reply | Exception:
    try:
        return check_reply(reply)
    except TypeError as error:
        return error


async def ask(policy: AsyncPolicy, request: Request) -> Answer:
    """Ask for one reply; what the policy raises is its answer, unless it is a `RagenError`."""
    started = time.perf_counter()
    try:
        reply = check_reply(await policy.reply(request))
    except RagenError:
        raise
    except Exception as error:
        return Answer(error, 0.0)
    waited = time.perf_counter() - started
    return Answer(reply, waited if reply.seconds is None else reply.seconds)


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
        runner.play(await ask(policy, runner.request()))
    return runner.record(policy.name)


async def _write(ended: asyncio.Queue[Episode | None], keep: Keep, disk: ThreadPoolExecutor) -> None:
    """Keep what has ended, all that is there at once, until a None comes."""
    while (first := await ended.get()) is not None:
        batch = [first, *_take_all(ended)]
        await asyncio.get_running_loop().run_in_executor(disk, keep, batch)


def _take_all(ended: asyncio.Queue[Episode | None]) -> list[Episode]:
    """Take the episodes that are there; a None stays last."""
    episodes: list[Episode] = []
    while not ended.empty():
        episode = ended.get_nowait()
        if episode is None:
            ended.put_nowait(None)
            break
        episodes.append(episode)
    return episodes


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
