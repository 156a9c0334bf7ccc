"""Why episodes end: one type for conversations, trajectories, records and metrics."""

from enum import StrEnum
from typing import Literal, TypeAlias


class EndReason(StrEnum):
    """Why an episode ended; records store the value. A conversation itself sets the first four."""

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


ConversationEnd: TypeAlias = Literal[
    EndReason.TERMINATED, EndReason.TRUNCATED, EndReason.BUDGET, EndReason.INVALID
]
"""The reasons for which a conversation ends whoever plays it."""
