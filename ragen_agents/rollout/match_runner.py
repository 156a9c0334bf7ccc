"""One game of several players while it is played, an agent on each seat, and what it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pettingzoo

from ragen_agents.policies.base import Reply, Request
from ragen_agents.rollout.episode import InstanceRecord, TurnRecord
from ragen_agents.rollout.match_record import MatchRecord, SeatRecord
from ragen_agents.rollout.turn_record import describe_error, record_turn
from ragen_envs import SUITE_VERSION
from ragen_envs.conversation import EndReason, TurnResult
from ragen_envs.game.errors import RagenError
from ragen_envs.levels.seeding import new_stream
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.multi_agent.conversation import MultiAgentConversation


@dataclass(frozen=True)
class MatchSpec:
    """What to play, and with which agents."""

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


class SeatReply(NamedTuple):
    """What an agent replied on a seat, or the error instead."""

    reply: Reply | Exception
    seconds: float


def seat_seed(run_seed: int, spec: MatchSpec, seat: int, turn: int) -> int:
    """Return the seed of a reply's draws, in [0, 2^63).

    It does not depend on the lineup: an agent draws the same on a seat, whoever sits on the others.
    """
    what = f"{spec.env_id} {spec.split} seat {seat} {turn}"
    return new_stream(f"policy {run_seed}", what, spec.level)


def make_match_env(env_id: str, kwargs: Mapping[str, Any]) -> MultiAgentConversation:
    """Make the text face of a game for several players.

    Raises:
        RagenError: There is no such game, or a keyword is unknown or has a wrong value.
    """
    known = [game.text_id for game in MULTI_AGENT_GAMES]
    if env_id not in known:
        raise RagenError(f"unknown game of several players '{env_id}'; use {', '.join(known)}")
    env: MultiAgentConversation = pettingzoo.make("parallel", env_id, **kwargs)
    return env


@dataclass
class _SeatState:
    """The agent of a seat, its turns so far, and how it left the game."""

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

    A seat whose agent fails, or whose conversation outgrows its model's context, says nothing from
    then on: it is no success, and the others play on.

    Args:
        spec: What is played; the lineup must have an agent for each seat.
        run_seed: Seed from which the seeds of the requests are derived.

    Raises:
        RagenError: There is no such game or level.
    """

    def __init__(self, spec: MatchSpec, run_seed: int) -> None:
        self.spec = spec
        self.run_seed = run_seed
        self.env = make_match_env(spec.env_id, spec.env_kwargs)
        self.env.reset(seed=spec.level, options={"split": spec.split})
        self._seats = [_SeatState(agent) for agent in spec.lineup]

    def requests(self) -> dict[int, Request]:
        """Return what each seat is asked now; nothing once the match is over."""
        return {
            number: Request(seat.messages, self._seed(number), seat, prefix=seat.settings.prefix)
            for number, seat in enumerate(self.env.seats)
            if self._seats[number].end is None
        }

    def play(self, answers: Mapping[int, SeatReply]) -> None:
        """Play a round with the replies of all seats that were asked.

        A game that breaks ends the match of all who are in it as an error.
        """
        asked = {number: self.env.seats[number].user for number in answers}
        said = {number: self._said(number, answer) for number, answer in answers.items()}
        spoken = {number: reply for number, reply in said.items() if reply is not None}
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
            result = results[agents[number]]
            self._record(number, asked[number], reply, result, answers[number].seconds)

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

    def _seed(self, number: int) -> int:
        return seat_seed(self.run_seed, self.spec, number, len(self._seats[number].turns))

    def _said(self, number: int, answer: SeatReply) -> Reply | None:
        """Return the reply of a seat that was asked, or None if it has none, and none any more."""
        state, reply = self._seats[number], answer.reply
        if isinstance(reply, Exception):
            state.fail(reply)
            return None
        if reply.overflow:
            state.end = EndReason.OVERFLOW
            return None
        return reply

    def _record(
        self, number: int, user: str, reply: Reply, result: TurnResult, seconds: float
    ) -> None:
        state, names = self._seats[number], self.env.seats[number].names
        state.turns.append(record_turn(user, (), reply, result, names, seconds))
        state.end = result.end

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
