"""Trajectories: an episode in tokens, built only by appending."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ragen_agents.rollout.claims import CheckedThought
from ragen_envs.conversation import EndReason
from ragen_envs.game.oracle import Budget

CONTEXT = -1
"""Turn id of the tokens that the model did not write."""


@dataclass
class TrajectoryTurn:
    """One reply and its effects."""

    reply: str
    rewards: dict[str, float]
    """Parts of the turn's reward by name: the game's, the format penalty, and others if asked for."""
    valid: bool
    """Whether the reply has no defect."""
    effective: bool
    """Whether some action changed the state."""
    actions: int
    """Number of actions that ran."""
    cut_off: bool
    """Whether the token limit ended the reply."""
    state: str = ""
    """The state that was replied to, as text, without what is left of turns and actions."""
    budget: Budget | None = None
    """Turns and actions that were left; None where unknown."""
    thought: CheckedThought | None = None
    """Checked claims of the thought; None where unknown."""

    @property
    def reward(self) -> float:
        """Sum of the parts."""
        return sum(self.rewards.values())


class Row(NamedTuple):
    """Tokens that the model reads in one pass: a prompt, the replies to it and what lies between them."""

    ids: list[int]
    turn_ids: list[int]
    logprobs: list[float]

    @property
    def prompt(self) -> int:
        """Number of tokens before the first that the model wrote."""
        return next((i for i, turn in enumerate(self.turn_ids) if turn != CONTEXT), len(self.ids))


@dataclass
class Trajectory:
    """One episode as the trainer sees it, in one or more *rows*.

    A row begins where the model is shown a prompt that does not extend what it has read and written before.
    The lists ``ids``, ``logprobs``, ``entropies`` and ``turn_ids`` have one item per token, row after row.
    """

    group: int
    """Number of the initial state in the iteration."""
    member: int
    """Number of the episode in its group."""
    ids: list[int]
    """The first prompt, and all that was appended, prompts of further rows included."""
    logprobs: list[float] = field(default_factory=list)
    """The engine's log-probability of each sampled token, in nats; 0 for context, nan if not known."""
    entropies: list[float] = field(default_factory=list)
    """Entropy of what each token was sampled from, in nats; 0 for context, nan where it is not known."""
    turn_ids: list[int] = field(default_factory=list)
    """Turn of each sampled token, from 0; ``CONTEXT`` for all others."""
    turns: list[TrajectoryTurn] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)
    """The whole conversation, for people, whatever part of it the model was shown."""
    starts: list[int] = field(default_factory=lambda: [0])
    """Place of the first token of each row."""
    replies: int = 0
    """Number of replies that were appended."""
    end: EndReason | None = None
    """The reason of the end; None until then."""
    success: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        missing = len(self.ids) - len(self.turn_ids)
        self.logprobs += [0.0] * missing
        self.entropies += [0.0] * missing
        self.turn_ids += [CONTEXT] * missing

    @property
    def episode_return(self) -> float:
        """Sum of the turns' rewards."""
        return sum(turn.reward for turn in self.turns)

    @property
    def written(self) -> int:
        """Number of tokens that the model wrote."""
        return sum(turn != CONTEXT for turn in self.turn_ids)

    @property
    def rows(self) -> list[Row]:
        """The rows, in the order of their turns."""
        ends = [*self.starts[1:], len(self.ids)]
        return [
            Row(self.ids[start:end], self.turn_ids[start:end], self.logprobs[start:end])
            for start, end in zip(self.starts, ends, strict=True)
        ]

    @property
    def shown(self) -> list[int]:
        """The tokens of the last row: what the model reads before its next reply."""
        return self.ids[self.starts[-1] :]

    def begin_row(self, prompt: list[int]) -> None:
        """Begin a row with a prompt."""
        self.starts.append(len(self.ids))
        self.append_context(prompt)

    def append_context(self, ids: list[int]) -> None:
        """Append tokens that the model reads."""
        nothing = [0.0] * len(ids)
        self._append(ids, nothing, nothing, CONTEXT)

    def append_reply(
        self, ids: list[int], logprobs: list[float] | None, entropies: list[float] | None = None
    ) -> None:
        """Append the tokens of the next turn's reply."""
        unknown = [math.nan] * len(ids)
        self._append(ids, logprobs or unknown, entropies or unknown, self.replies)
        self.replies += 1

    def _append(self, ids: list[int], logprobs: list[float], entropies: list[float], turn: int) -> None:
        self.ids += ids
        self.logprobs += logprobs
        self.entropies += entropies
        self.turn_ids += [turn] * len(ids)
