"""Play matches in lock-step: every open match of a chunk gets its next round together."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ragen_agents.policies.base import (
    AsyncPolicy,
    BudgetReachedError,
    Policy,
    Releasable,
    Reply,
    Request,
)
from ragen_agents.policies.controls import Control
from ragen_agents.rollout.episode_runner import checked_reply
from ragen_agents.rollout.match_record import MatchRecord
from ragen_agents.rollout.match_runner import MatchRunner, MatchSpec, SeatReply
from ragen_envs.game.errors import RagenError

Keep = Callable[[Sequence[MatchRecord]], None]
"""Writes matches that are over."""


class _SeatRequest(NamedTuple):
    match: MatchRunner
    seat: int
    request: Request

    @property
    def agent(self) -> str:
        return self.match.spec.lineup[self.seat]


async def play_matches(
    specs: Sequence[MatchSpec],
    policies: Mapping[str, Policy | AsyncPolicy],
    run_seed: int,
    keep: Keep,
) -> None:
    """Play matches to their ends, and keep each when it is over.

    A local model is asked for all its seats in batches, an `AsyncPolicy` for each by itself, at most
    ``concurrency`` at a time. A policy that raises fails on the seats that it was asked for.

    Args:
        specs: What is played.
        policies: By the names in the lineups.
        run_seed: Seed from which the seeds of the requests are derived.
        keep: Given the matches that a round has ended.

    Raises:
        BudgetReachedError: No more replies are paid for; replies under way were waited for.
        RagenError: Nothing can be played, or kept; all matches that were over before are kept.
    """
    going = [MatchRunner(spec, run_seed) for spec in specs]
    try:
        await _play_out(going, policies, keep)
    finally:
        for policy in policies.values():
            if isinstance(policy, Releasable):
                policy.release()


async def _play_out(
    going: Sequence[MatchRunner], policies: Mapping[str, Policy | AsyncPolicy], keep: Keep
) -> None:
    while going:
        asked = [
            _SeatRequest(m, seat, request) for m in going for seat, request in m.requests().items()
        ]
        answers = await _ask_all(asked, policies)
        for match in going:
            match.play(answers[id(match)])
        keep([match.record() for match in going if not match.requests()])
        going = [match for match in going if match.requests()]


async def _ask_all(
    asked: Sequence[_SeatRequest], policies: Mapping[str, Policy | AsyncPolicy]
) -> dict[int, dict[int, SeatReply]]:
    """Return the answers of a round by the identity of the match and by seat."""
    of_agent: defaultdict[str, list[_SeatRequest]] = defaultdict(list)
    for one in asked:
        of_agent[one.agent].append(one)
    everything = [_ask(policies[agent], part) for agent, part in of_agent.items()]
    found = await asyncio.gather(*everything, return_exceptions=True)
    answers: defaultdict[int, dict[int, SeatReply]] = defaultdict(dict)
    for part, given in zip(of_agent.values(), found, strict=True):
        if isinstance(given, BaseException):
            raise given
        for one, answer in zip(part, given, strict=True):
            answers[id(one.match)][one.seat] = answer
    return answers


async def _ask(policy: Policy | AsyncPolicy, asked: Sequence[_SeatRequest]) -> list[SeatReply]:
    requests = [one.request for one in asked]
    if not isinstance(policy, AsyncPolicy):
        size = policy.batch_size
        pieces = [requests[start : start + size] for start in range(0, len(requests), size)]
        return [answer for piece in pieces for answer in _act(policy, piece)]
    places = asyncio.Semaphore(policy.concurrency)
    everything = [_reply(policy, request, places) for request in requests]
    found = await asyncio.gather(*everything, return_exceptions=True)
    stops = [given for given in found if isinstance(given, BaseException)]
    # What stops the run matters more than a budget that is reached at the same time.
    for stop in sorted(stops, key=lambda stop: isinstance(stop, BudgetReachedError)):
        raise stop
    return [given for given in found if isinstance(given, SeatReply)]


def _act(policy: Policy, requests: Sequence[Request]) -> list[SeatReply]:
    """Ask a local policy for a batch.

    What it raises is its answer on every seat of the batch; a control is asked again for each seat.
    """
    started = time.perf_counter()
    try:
        replies = policy.act(requests)
        seconds = (time.perf_counter() - started) / len(requests)
        pairs = zip(requests, replies, strict=True)
        return [SeatReply(_checked(reply), seconds) for _, reply in pairs]
    except RagenError:
        raise
    except Exception as error:
        if len(requests) > 1 and isinstance(policy, Control):
            return [answer for request in requests for answer in _act(policy, [request])]
        return [SeatReply(error, 0.0) for _ in requests]


def _checked(reply: object) -> Reply | Exception:
    try:
        return checked_reply(reply)
    except (TypeError, ValueError) as error:
        return error


async def _reply(policy: AsyncPolicy, request: Request, places: asyncio.Semaphore) -> SeatReply:
    async with places:
        started = time.perf_counter()
        try:
            reply = checked_reply(await policy.reply(request))
        except RagenError:
            raise
        except Exception as error:
            return SeatReply(error, 0.0)
    waited = time.perf_counter() - started
    return SeatReply(reply, waited if reply.seconds is None else reply.seconds)
