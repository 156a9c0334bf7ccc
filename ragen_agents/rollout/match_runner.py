"""Matches: games of several players with an agent on each seat, played in lock-step."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ragen_agents.policies.base import AsyncPolicy, BudgetReachedError, Policy, Releasable, Reply, Request
from ragen_agents.rollout.episode import (
    InstanceRecord,
    MatchRecord,
    SeatRecord,
    TurnRecord,
    describe_error,
    record_turn,
)
from ragen_agents.rollout.episode_runner import Answer
from ragen_agents.rollout.play import act, ask
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import EndReason
from ragen_envs.errors import RagenError
from ragen_envs.levels.seeding import new_stream

if TYPE_CHECKING:
    from ragen_envs.multi_agent.conversation import MultiAgentConversation

ResultT = TypeVar("ResultT")
Keep = Callable[[Sequence[MatchRecord]], None]
"""Writes matches that are over."""


@dataclass(frozen=True)
class MatchSpec:
    """A game of several players, a level and the agents that play it."""

    task: str
    """Row of the suite."""
    env_id: str
    """Id of the text face of a game for several players."""
    lineup: tuple[str, ...]
    """The agent of each seat."""
    level: int
    """Number of the level in its split, >= 0."""
    split: str = "test"
    env_kwargs: dict[str, Any] = field(default_factory=dict, hash=False)
    """Keywords for the env, over those of its id."""


def seat_seed(run_seed: int, spec: MatchSpec, seat: int, turn: int) -> int:
    """Return the seed of a reply's draws, in [0, 2^63).

    It does not depend on the lineup: an agent draws the same on a seat, whoever sits on the others.
    """
    what = f"{spec.env_id} {spec.split} seat {seat} {turn}"
    return new_stream(f"policy {run_seed}", what, spec.level)


def make_match_env(env_id: str, kwargs: Mapping[str, Any]) -> "MultiAgentConversation":
    """Make the text face of a game for several players."""
    import pettingzoo  # an extra, which episodes of one player do without

    from ragen_envs.multi_agent import MULTI_AGENT_GAMES

    known = [game.text_id for game in MULTI_AGENT_GAMES]
    if env_id not in known:
        raise RagenError(f"unknown game of several players '{env_id}'; use {', '.join(known)}")
    env: MultiAgentConversation = pettingzoo.make("parallel", env_id, **kwargs)
    return env


@dataclass
class _SeatState:
    agent: str
    turns: list[TurnRecord] = field(default_factory=list)
    end: EndReason | None = None
    error: str | None = None

    @property
    def is_silent(self) -> bool:
        return self.end is not None and self.end.is_failure

    def fail(self, error: Exception) -> None:
        self.end, self.error = EndReason.ERROR, describe_error(error)


class MatchRunner:
    """A match: the requests that wait for replies, the replies so far, the record at the end.

    A seat whose agent fails, or whose conversation outgrows its model's context, says nothing from then on.
    """

    def __init__(self, spec: MatchSpec, run_seed: int) -> None:
        self.spec = spec
        self.run_seed = run_seed
        self.env = make_match_env(spec.env_id, spec.env_kwargs)
        self.env.reset(seed=spec.level, options={"split": spec.split})
        self._seats = [_SeatState(agent) for agent in spec.lineup]

    @property
    def is_over(self) -> bool:
        """Whether no seat is asked any more."""
        return all(seat.end is not None for seat in self._seats)

    def requests(self) -> dict[int, Request]:
        """Return the request to each seat that is asked now; none once the match is over."""
        return {
            number: Request(
                seat.messages,
                seat_seed(self.run_seed, self.spec, number, len(self._seats[number].turns)),
                seat,
                prefix=seat.settings.prefix,
            )
            for number, seat in enumerate(self.env.seats)
            if self._seats[number].end is None
        }

    def play(self, answers: Mapping[int, Answer]) -> None:
        """Play a round with the replies of all seats that were asked.

        A game that breaks ends the match of all who are in it as an error.
        """
        prompts = {number: self.env.seats[number].user for number in answers}
        spoken: dict[int, Reply] = {}
        for number, (reply, _) in answers.items():
            if isinstance(reply, Exception):
                self._seats[number].fail(reply)
            elif reply.overflow:
                self._seats[number].end = EndReason.OVERFLOW
            else:
                spoken[number] = reply
        agents = self.env.possible_agents
        replies = dict.fromkeys(self.env.agents, "")
        replies |= {agents[number]: reply.text for number, reply in spoken.items()}
        cut_off = {agents[number]: reply.cut_off for number, reply in spoken.items()}
        try:
            results = self.env.play(replies, cut_off)
        except Exception as error:
            for number in spoken:
                self._seats[number].fail(error)
            return
        for number, reply in spoken.items():
            result, names = results[agents[number]], self.env.seats[number].names
            turn = record_turn(prompts[number], (), reply, result, names, answers[number].seconds)
            self._seats[number].turns.append(turn)
            self._seats[number].end = result.end

    def record(self) -> MatchRecord:
        """Return the record of the match, which must be over."""
        return MatchRecord(
            suite_version=SUITE_VERSION,
            task=self.spec.task,
            env_id=self.spec.env_id,
            env_kwargs=dict(self.spec.env_kwargs),
            instance=InstanceRecord(**vars(self.env.game.instance)),
            sampling_seed=self.run_seed,
            seats=tuple(self._seat(number) for number in range(len(self._seats))),
        )

    def _seat(self, number: int) -> SeatRecord:
        state, seat = self._seats[number], self.env.seats[number]
        assert state.end is not None
        return SeatRecord(
            agent=state.agent,
            system=seat.system,
            turns=tuple(state.turns),
            closing="" if state.is_silent else seat.user,
            success=seat.success and not state.is_silent,
            episode_return=sum(turn.reward for turn in state.turns),
            end=state.end,
            error=state.error,
        )


async def play_matches(
    specs: Sequence[MatchSpec], policies: Mapping[str, Policy | AsyncPolicy], run_seed: int, keep: Keep
) -> None:
    """Play matches to their ends, and keep each when it is over.

    A local model is asked for all its seats in batches, an `AsyncPolicy` for each by itself, at most
    ``concurrency`` at a time. A policy that raises fails on the seats that it was asked for.

    Raises:
        BudgetReachedError: No more replies are paid for; replies under way were waited for.
        RagenError: Nothing can be played, or kept; all matches that were over before are kept.
    """
    going = [MatchRunner(spec, run_seed) for spec in specs]
    try:
        while going:
            await _play_round(going, policies)
            keep([match.record() for match in going if match.is_over])
            going = [match for match in going if not match.is_over]
    finally:
        for policy in policies.values():
            if isinstance(policy, Releasable):
                policy.release()


async def _play_round(matches: Sequence[MatchRunner], policies: Mapping[str, Policy | AsyncPolicy]) -> None:
    """Ask each agent for all its replies of a round, and play them."""
    asked: defaultdict[str, list[tuple[int, int, Request]]] = defaultdict(list)
    for number, match in enumerate(matches):
        for seat, request in match.requests().items():
            asked[match.spec.lineup[seat]].append((number, seat, request))
    asking = [_ask(policies[agent], [one[2] for one in part]) for agent, part in asked.items()]
    answered = await asyncio.gather(*asking, return_exceptions=True)
    answers: list[dict[int, Answer]] = [{} for _ in matches]
    for part, given in zip(asked.values(), _without_errors(answered), strict=True):
        for (number, seat, _), answer in zip(part, given, strict=True):
            answers[number][seat] = answer
    for match, replies in zip(matches, answers, strict=True):
        match.play(replies)


async def _ask(policy: Policy | AsyncPolicy, requests: Sequence[Request]) -> list[Answer]:
    if not isinstance(policy, AsyncPolicy):
        size = policy.batch_size
        pieces = [requests[start : start + size] for start in range(0, len(requests), size)]
        return [answer for piece in pieces for answer in act(policy, piece)]
    places = asyncio.Semaphore(policy.concurrency)

    async def ask_in_turn(request: Request) -> Answer:
        async with places:
            return await ask(policy, request)

    return _without_errors(await asyncio.gather(*map(ask_in_turn, requests), return_exceptions=True))


def _without_errors(results: Sequence[ResultT | BaseException]) -> list[ResultT]:
    """Return the results, or raise an error among them; a reached budget only if there is no other."""
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, BudgetReachedError)):
        raise error
    return [result for result in results if not isinstance(result, BaseException)]
