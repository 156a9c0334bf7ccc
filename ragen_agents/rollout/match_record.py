"""The record of a match: one JSON line for a game of several players, enough to play it again."""

from typing import Any, Final, Literal, NamedTuple

from ragen_agents.rollout.episode import InstanceRecord, RecordModel, TurnRecord
from ragen_envs.conversation import EndReason

MATCH_VERSION: Final = 2
"""2 added ``soft_defects``; records of version 1 lack it."""


class MatchKey(NamedTuple):
    """Identifies a match within its run."""

    lineup: tuple[str, ...]
    """The agent of each seat."""
    task: str
    level: int
    """Number of the level in its split."""

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that play."""
        return self.lineup

    def __str__(self) -> str:
        return f"{', '.join(self.lineup)} / {self.task} / level {self.level}"


class SeatRecord(RecordModel):
    """The prompts, replies and rewards of one seat of a match."""

    agent: str
    """Name of the policy on the seat."""
    system: str
    """The system message."""
    turns: tuple[TurnRecord, ...]
    """One for each round that the agent replied in."""
    closing: str
    """The text after the last turn, or "" where ``end`` is "error" or "overflow"."""
    success: bool
    """Whether the seat had what the game is about when it left the game."""
    episode_return: float
    """Sum of the seat's rewards and penalties."""
    end: EndReason
    """After "error" and "overflow" the seat says nothing more, and the others play on."""
    error: str | None = None


class MatchRecord(RecordModel):
    """One game of several players on one level."""

    schema_version: Literal[1, 2] = MATCH_VERSION
    suite_version: int
    """Version of the games; results of different versions are not comparable."""
    task: str
    """Row of the suite."""
    env_id: str
    """Id of the text face of a game for several players."""
    env_kwargs: dict[str, Any]
    """Keywords that it was made with: conversation settings and the game's."""
    instance: InstanceRecord
    """The level; its ``seed`` is the level's number in the split."""
    sampling_seed: int
    """Seed that the policies' draws of this run derive from."""
    seats: tuple[SeatRecord, ...]
    """Records of the seats, in their order."""

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """The turns of all seats, seat by seat."""
        return tuple(turn for seat in self.seats for turn in seat.turns)

    @property
    def error(self) -> str | None:
        """The first seat's error, if there is one."""
        return next((seat.error for seat in self.seats if seat.error is not None), None)

    @property
    def is_failure(self) -> bool:
        """Whether an error or the context ended a seat's part in the game."""
        return any(seat.end.is_failure for seat in self.seats)

    @property
    def key(self) -> MatchKey:
        """Identifies it within its run; the level is -1 if the record names none."""
        level = -1 if self.instance.seed is None else self.instance.seed
        return MatchKey(tuple(seat.agent for seat in self.seats), self.task, level)
