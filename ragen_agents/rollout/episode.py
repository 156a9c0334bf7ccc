"""The records of episodes and of matches: one JSON line each, enough to play it again and to check it."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragen_agents.pictures import picture_hash
from ragen_agents.policies.base import MAX_SECONDS, MAX_TOKENS, Reply
from ragen_envs.conversation import EndReason, Picture
from ragen_envs.conversation.protocol import TurnResult
from ragen_envs.game.text import action_texts

SCHEMA_VERSION: Final = 3
"""2 added ``picture``, ``reasoning`` and ``tokens_estimated``; 3 added ``soft_defects``,
``random_success`` and ``random_return``. Records of earlier versions lack them, and have the oracle's
expected return as ``optimal_return``."""
MATCH_VERSION: Final = 2
"""2 added ``soft_defects``; records of version 1 lack it."""
_NAMES: Final[set[str]] = set()


class EpisodeKey(NamedTuple):
    """Identifies an episode within its run."""

    agent: str
    task: str
    instance: int | None
    """Index of the frozen level."""
    attempt: int

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that play."""
        return (self.agent,)

    def __str__(self) -> str:
        return f"{self.agent} / {self.task} / instance {self.instance}, attempt {self.attempt}"


class RecordModel(BaseModel):
    """Base of what is written to a run's records."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_post_init(self, _context: Any, /) -> None:
        """Share one set of names among all records, which is most of the memory of a long run."""
        object.__setattr__(self, "__pydantic_fields_set__", _NAMES)


class InstanceRecord(RecordModel):
    """The level that was played."""

    distribution: str
    """Name of the level distribution."""
    split: str
    """train, validation or test."""
    index: int | None
    """Index in the frozen pack, or None for a level drawn from a seed."""
    seed: int | None
    """Seed of the reset, or None for a frozen instance."""
    noise: int
    """Number of the independent noise draw."""
    level: str
    """The level in text form."""
    key: str
    """Hexadecimal key of the level, equal up to symmetry."""


class TurnRecord(RecordModel):
    """One reply and its result."""

    user: str
    """The user message that was replied to."""
    picture: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Hash of the picture beside the user message, or None; see `picture_hash`."""
    reply: str
    """The raw reply, without the beginning of the turn that the setting ``think_prefix`` gives."""
    reasoning: str | None = None
    """The reasoning of a model beside its reply, or None. It is not played."""
    cut_off: bool = False
    """Whether the model was cut off by its token limit."""
    filtered: bool = Field(default=False, exclude_if=lambda filtered: not filtered)
    """Whether a content filter withheld the reply; omitted if not."""
    prompt_tokens: int | None = Field(default=None, ge=0, le=MAX_TOKENS)
    """Tokens of the whole prompt, or None where the policy has no tokens."""
    reply_tokens: int | None = Field(default=None, ge=0, le=MAX_TOKENS)
    """Tokens of the reply, or None where the policy has no tokens."""
    tokens_estimated: bool = False
    """Whether the token counts are estimates, because the server reported none."""
    actions: tuple[str, ...]
    """Names of the actions that could be read."""
    executed: tuple[str, ...]
    """Names of the actions that ran."""
    effective: tuple[bool, ...]
    """Whether each of them changed the state."""
    defects: tuple[str, ...]
    """Names of the reply's defects."""
    soft_defects: tuple[str, ...] = ()
    """Names of the reply's soft defects, where they cost nothing."""
    rewards: tuple[float, ...]
    """The game's reward of each executed action."""
    penalty: float
    """The format penalty, 0 or negative."""
    seconds: float = Field(ge=0, le=MAX_SECONDS)
    """Seconds that the policy took, divided by the number of conversations in its batch; of a model
    behind an endpoint, those of the request that was answered."""

    @property
    def reward(self) -> float:
        """Sum of the game's rewards and the penalty."""
        return sum(self.rewards) + self.penalty


class Episode(RecordModel):
    """One episode of one policy on one instance."""

    schema_version: Literal[1, 2, 3] = SCHEMA_VERSION
    suite_version: int
    """Version of the games and their instances; results of different versions are not comparable."""
    task: str
    """Row of the suite that this episode belongs to, such as "Sokoban"."""
    env_id: str
    """Id of the conversation env."""
    env_kwargs: dict[str, Any]
    """Keywords that the env was made with: conversation settings and the game's."""
    instance: InstanceRecord
    agent: str
    """Name of the policy."""
    attempt: int = 0
    """Number of the try at this instance, from 0."""
    sampling_seed: int
    """Seed that the policy's draws of this run derive from."""
    system: Annotated[str, AfterValidator(sys.intern)]
    """The system message; most episodes of a run share it."""
    examples: tuple[tuple[str, str], ...] = Field(default=(), exclude_if=lambda e: not e)
    """User message and reply of each worked example shown before the first turn; omitted without any."""
    turns: tuple[TurnRecord, ...]
    closing: str
    """The text after the last turn, or "" if the episode ended in an error or exceeded the context."""
    success: bool
    has_success: bool = Field(default=True, exclude_if=bool)
    """False, and only then written, where the environment does not say what a success is: only returns
    count."""
    episode_return: float
    """Sum of all rewards and penalties."""
    optimal_success: float | None
    """Largest probability of success that any policy has under the same budget; None where it is not
    computed."""
    optimal_return: float | None
    """Largest expected sum of the game's rewards that any policy has under the same budget; None as above."""
    random_success: float | None = None
    """Exact probability of success of the random policy; None where it is not available, and in records
    of versions 1 and 2."""
    random_return: float | None = None
    """Exact expected return of the random policy; None as above."""
    end: EndReason
    error: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether an error or the context ended the episode."""
        return self.end.is_failure

    @property
    def key(self) -> EpisodeKey:
        """Identifies it within its run."""
        return EpisodeKey(self.agent, self.task, self.instance.index, self.attempt)


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
        """The first error of a seat, if there is one."""
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


def record_turn(
    user: str,
    pictures: Sequence[Picture],
    reply: Reply,
    result: TurnResult,
    names: Sequence[str],
    seconds: float,
) -> TurnRecord:
    """Return the record of a turn.

    ``pictures`` has one beside each user message so far, none if observations are text.
    """
    return TurnRecord(
        user=user,
        picture=picture_hash(pictures[-1]) if pictures else None,
        reply=reply.text,
        reasoning=reply.reasoning,
        cut_off=reply.cut_off,
        filtered=reply.filtered,
        prompt_tokens=reply.prompt_tokens,
        reply_tokens=reply.reply_tokens,
        tokens_estimated=reply.tokens_estimated,
        actions=action_texts(names, result.parsed.actions),
        executed=action_texts(names, result.executed),
        effective=result.effective,
        defects=tuple(str(d) for d in result.parsed.defects),
        soft_defects=tuple(str(d) for d in result.parsed.soft_defects),
        rewards=result.rewards,
        penalty=result.penalty,
        seconds=seconds,
    )


def describe_error(error: Exception) -> str:
    """Return an error as a record keeps it."""
    try:
        message = str(error)
    except Exception:  # of a class of the user's
        message = "its message cannot be read"
    text = f"{type(error).__name__}: {message}"[:2000]
    return text.encode(errors="backslashreplace").decode()  # a lone surrogate could not be written
