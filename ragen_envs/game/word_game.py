"""Games whose actions are words: the game says whether a text is legal, and why not."""

import copy
from abc import abstractmethod
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import Level, Levels
from ragen_envs.game.base import GameEnv
from ragen_envs.game.free_text import FreeText
from ragen_envs.game.text import GRID, OwnText
from ragen_envs.levels.splits import TRAIN

__all__ = ["LEGAL", "Legality", "WordGameEnv", "illegal", "quoted"]

MAX_ACTION_CHARACTERS: Final = 4096
"""Longer actions are illegal in every word game."""


class Legality(NamedTuple):
    """Whether an action may be played now."""

    is_legal: bool
    reason: str = ""
    """Reason as a clause without a full stop; "" for legal actions."""


LEGAL: Final = Legality(True)
"""Legality of an allowed action."""


def illegal(reason: str) -> Legality:
    """Return that an action may not be played, and why."""
    return Legality(False, reason)


def quoted(action: str) -> str:
    """Return an action as quoted in messages: on one line, at most 60 characters."""
    line = " ".join(action.split())
    return f"'{line}'" if len(line) <= 60 else f"'{line[:57]}...'"


class WordGameEnv(GameEnv[str]):
    """Base of the games whose actions are strings.

    A subclass adds what ``GameEnv`` requires, and:

    - ``legality(action)``: whether an action may be played now, and if not, why;
    - ``available()``: all legal actions, or examples if there are too many.

    Its ``action_names`` are the forms of its actions, such as ``pay <coin>``, and ``play`` is called with
    legal actions.

    An illegal action changes nothing, earns nothing and counts as a step; ``action_is_valid`` is then
    False and ``reason`` says why. The observation is the state as text, of at most 131,072 characters.
    """

    max_action_characters: ClassVar[int] = MAX_ACTION_CHARACTERS
    has_fixed_legality: ClassVar[bool] = False
    """Whether an action is legal in every state or in none; replies are then read without playing ahead."""
    _reason: str = ""

    def __init__(
        self,
        split: str = TRAIN,
        render_mode: str | None = None,
        level: Level | None = None,
        levels: Levels | None = None,
    ) -> None:
        super().__init__(split, render_mode, level, levels)
        self.action_space = FreeText(self.max_action_characters)

    @abstractmethod
    def legality(self, action: str) -> Legality:
        """Return whether an action may be played in the current state, and if not, why."""

    @abstractmethod
    def available(self) -> tuple[str, ...]:
        """Return every legal action of the current state, or examples if there are too many."""

    def legal(self, action: str) -> Legality:
        """Return whether an action may be played in the current state, and if not, why.

        Raises:
            RagenError: The action is not a string.
            ResetNeededError: The episode has not begun or has ended.
        """
        if self._over:
            raise self._reset_needed()
        if not isinstance(action, str):
            raise RagenError(f"action is {action!r}, but must be a string")
        if len(action) > self.max_action_characters:
            return illegal(f"an action has at most {self.max_action_characters:,} characters")
        return self.legality(action)

    def random_action(self, rng: np.random.Generator) -> str:
        """Return a legal action; uniform over ``available()`` unless the game says otherwise."""
        choices = self.available()
        return choices[int(rng.integers(len(choices)))]

    def act(self, action: str) -> tuple[float, bool, bool]:
        """Play one action; an illegal one changes nothing. See the base class."""
        verdict = self.legal(action)
        self._reason = verdict.reason
        if not verdict.is_legal:
            return 0.0, False, False
        reward, self._over, effective = self.play(action)
        return reward, self._over, effective

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[str, ...]:
        """Return random actions, each legal after those before it; fewer if they end the game."""
        game, chosen = copy.deepcopy(self), []
        for _ in range(count):
            chosen.append(game.random_action(rng))
            if game.act(chosen[-1])[1]:
                break
        return tuple(chosen)

    def observe(self) -> str:
        """Return the observation, which is the state as text."""
        if type(self.text).observation is OwnText.observation:  # which asks here
            raise RagenError(f"{type(self).__name__} has neither a method observe nor a text face")
        return self.text.observation(self, GRID, self.text.vocabularies["standard"])

    def info(self, effective: bool) -> dict[str, Any]:
        """Return the info, with the reason why the last action was illegal."""
        reason, self._reason = self._reason, ""
        return {**super().info(effective), "action_is_valid": not reason, "reason": reason}
