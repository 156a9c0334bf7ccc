"""Play one seat of a multi-agent game as a conversation."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from ragen_envs.conversation import prompt
from ragen_envs.conversation.parser import ParsedReply, parse_reply
from ragen_envs.conversation.protocol import ConversationEnd, Message, TurnResult
from ragen_envs.conversation.settings import (
    SETTING_NAMES,
    ConversationSettings,
    rename_actions,
    resolve_symbols,
)
from ragen_envs.errors import RagenError
from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.game.text import FORMATS, IMAGE, action_texts
from ragen_envs.multi_agent.base import MultiAgentEnv, SeatView

SEAT_SETTINGS: Final = tuple(
    name
    for name in SETTING_NAMES
    if name not in ("max_turns", "actions_per_turn", "max_actions", "demonstrations")
)
"""Settings of a conversation that a seat has; a turn is a round, with one action."""


class Seat:
    """The prompts and replies of one player: a ``ConversationWrapper`` of one seat.

    Policies are shown it in place of a single-player conversation.
    """

    in_words: Final = False
    """Whether actions are words of a form; in games of several players they are not."""

    def __init__(self, game: MultiAgentEnv, number: int, settings: ConversationSettings) -> None:
        self.game = game
        self.number = number
        self._asked = settings
        self.symbols = resolve_symbols(settings.symbols, game.text.vocabularies)
        self.names: tuple[str, ...] = ()
        self.end: ConversationEnd | None = None
        self.success = False

    def start(self) -> str:
        """Begin the episode that the game was reset to; return the first prompt."""
        limit = self.game.limit
        self.settings = replace(self._asked, max_turns=limit, max_actions=limit, actions_per_turn=1)
        face, view = self.game.text, SeatView(self.game, self.number)
        self.names = rename_actions(face.actions(view), self.settings.action_names)
        self.end = None
        self.success = False
        self._turns: list[tuple[str, str]] = []
        legend = face.legend(self.symbols)
        self.system = prompt.system_prompt(face.rules(view), legend, self.names, self.settings)
        self.user = prompt.turn_prompt(self.state_text(), 1, limit, self.settings)
        return f"{self.system}\n\n{self.user}"

    def read(self, reply: str, truncated: bool = False) -> ParsedReply:
        """Read a reply; ``truncated`` says that the model was cut off by its token limit."""
        settings = self.settings
        return parse_reply(
            reply, self.names, 1, settings.think, truncated,
            prefix=settings.prefix, penalise_soft=settings.penalise_soft,
        )  # fmt: skip

    def choice(self, parsed: ParsedReply) -> int | None:
        """Return the action that a reply plays, or None if it plays none."""
        runs = parsed.is_valid or self.settings.invalid == "penalise"
        return parsed.actions[0] if runs and parsed.actions else None

    def tell(
        self, reply: str, parsed: ParsedReply, reward: float, effective: bool, end: ConversationEnd | None
    ) -> TurnResult:
        """Write the next message to the player: the result of the round, and the next request."""
        choice = self.choice(parsed)
        executed = () if choice is None else (choice,)
        penalty = 0.0 if parsed.is_valid else float(self.settings.format_penalty)
        self._turns.append((self.user, reply))
        self.end = end
        self.success = self.game.success(self.number)
        effects = (effective,) * len(executed)
        ran = action_texts(self.names, executed)
        total = reward + penalty
        feedback = prompt.feedback(ran, effects, parsed.defects, total, self.settings)
        if end is None:
            left = self.game.rounds_left
            turn = len(self._turns) + 1
            request = prompt.turn_prompt(self.state_text(), turn, left, self.settings)
            self.user = f"{feedback}\n{request}"
        else:
            self.user = prompt.final_prompt(feedback, self.success, self.state_text())
        return TurnResult(parsed, executed, effects, (reward,), penalty, end, self.user)

    def state_text(self) -> str:
        """Return the state as the seat sees it, in the format and symbols of the settings."""
        view = SeatView(self.game, self.number)
        return self.game.text.observation(view, self._asked.observation, self.symbols)

    @property
    def budget(self) -> Budget:
        """Remaining budget: a round is a turn with one action."""
        return Budget.closed_loop(self.game.rounds_left)

    @property
    def messages(self) -> list[Message]:
        """The chat that ends with the message to reply to, under the history setting."""
        kept = {"full": len(self._turns), "last": self.settings.history_turns, "none": 0}
        first = max(0, len(self._turns) - kept[self.settings.history])
        return prompt.chat(self.system, [*self._turns[first:], (self.user, "")], self.settings.prefix)

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[int, ...]:
        """Return ``count`` uniformly random actions."""
        return tuple(rng.integers(len(self.names), size=count).tolist())

    def oracle(self) -> Advice:
        """Return the optimum of the seat under the rounds that are left."""
        return self.game.oracle(self.number)


def read_settings(kwargs: dict[str, Any]) -> ConversationSettings:
    """Split the settings of seats from keywords.

    Raises:
        RagenError: A setting has a wrong value.
    """
    given = {name: kwargs.pop(name) for name in SEAT_SETTINGS if name in kwargs}
    if given.get("observation") == IMAGE:
        raise RagenError(
            f"observation is 'image', but must be one of {', '.join(FORMATS)}: seats are text-only"
        )
    if given.get("invalid") == "end":
        raise RagenError("invalid is 'end', but must be one of penalise, discard: others play on")
    return ConversationSettings(**given)
