"""Define what a conversation is to others: messages, results of turns, reasons why episodes end."""

from enum import StrEnum
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragen_envs.conversation.parser import ParsedReply
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.game.claims import Claim
from ragen_envs.game.oracle import Action, Advice, Budget

Message = dict[str, str]
"""A chat message with the keys ``role`` and ``content``."""

Picture = NDArray[np.uint8]
"""An RGB picture, uint8 (H, W, 3)."""

MAX_TEXT: Final = 1 << 20
"""Most characters of an observation in words."""


class EndReason(StrEnum):
    """Reason for the end of an episode, as records store it. A conversation itself sets the first four."""

    TERMINATED = "terminated"
    """The game ended: it is solved, or it cannot be played on."""
    TRUNCATED = "truncated"
    """The game's own time limit was reached."""
    BUDGET = "budget"
    """The turns or actions that the settings allow were used up."""
    INVALID = "invalid"
    """A reply had a defect, and the setting ``invalid`` is "end"."""
    OVERFLOW = "overflow"
    """The prompt left no room for a reply in the model's context."""
    ERROR = "error"
    """The agent or the game failed; the record's ``error`` says how."""

    @property
    def is_failure(self) -> bool:
        """Whether the episode was cut short by an error, which the tables count as a failure."""
        return self in (EndReason.OVERFLOW, EndReason.ERROR)

    @property
    def words(self) -> str:
        """The reason as pages show it."""
        return _WORDS[self]


_WORDS: Final = {
    EndReason.TERMINATED: "the game ended",
    EndReason.TRUNCATED: "time limit",
    EndReason.BUDGET: "turns or actions used up",
    EndReason.INVALID: "invalid reply",
    EndReason.OVERFLOW: "context full",
    EndReason.ERROR: "error",
}


ConversationEnd: TypeAlias = Literal[
    EndReason.TERMINATED, EndReason.TRUNCATED, EndReason.BUDGET, EndReason.INVALID
]
"""The reasons for which a conversation ends whoever plays it."""


class TurnResult(NamedTuple):
    """The result of one reply."""

    parsed: ParsedReply
    executed: tuple[Action, ...]
    """The actions that ran."""
    effective: tuple[bool, ...]
    """Whether each of them changed the state."""
    rewards: tuple[float, ...]
    """The game's reward of each."""
    penalty: float
    """The format penalty charged, 0 or negative."""
    end: ConversationEnd | None
    """End of the episode, or None if it goes on."""
    text: str
    """The next user message, or the closing text."""
    claims: tuple[Claim, ...] = ()
    """Claims of the thought, if they were requested with the reply."""

    @property
    def reward(self) -> float:
        """Sum of the game's rewards and the penalty."""
        return sum(self.rewards) + self.penalty


class Conversation(Protocol):
    """A conversation that waits for a reply: a single player's, or that of a seat among several."""

    names: tuple[str, ...]
    """Names of the actions, or the forms of actions that are words."""
    settings: ConversationSettings

    @property
    def in_words(self) -> bool:
        """Whether actions are words instead of names from a fixed list."""

    @property
    def messages(self) -> list[Message]:
        """The chat that ends with the message to reply to."""

    @property
    def budget(self) -> Budget:
        """Turns and actions that are left."""

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[Action, ...]:
        """Return random actions for a turn."""

    def oracle(self) -> Advice:
        """Return the optimum under the remaining budget."""
