"""The text of a game that is played in words: rules, legend, actions, observations, thoughts."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ragen_envs.game.oracle import Action, Budget

__all__ = [
    "BOTH",
    "COORDINATES",
    "FORMATS",
    "GRID",
    "IMAGE",
    "OwnText",
    "Symbols",
    "action_texts",
    "countdown",
    "explain",
]

GRID: Final = "grid"
"""A state as a drawing of symbols."""
COORDINATES: Final = "coordinates"
"""A state as a list of positions."""
BOTH: Final = "both"
"""A drawing, then a list of positions."""
IMAGE: Final = "image"
"""A picture in place of text."""
FORMATS: Final = (GRID, COORDINATES, BOTH)
"""The forms of a state that are text."""

Symbols = Mapping[str, str]
"""One printable character for the name of each kind of cell."""


class OwnText:
    """The text of a game: by default, what the game itself says of its rules, its actions and its state.

    ``env`` is the unwrapped game, whose current state is only read; a face is a constant of the game's class
    and holds no state.
    """

    vocabularies: Mapping[str, Symbols] = {"standard": {}}
    """Named symbol sets; "standard" always exists. Empty symbol sets for games without a board."""

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards in a few sentences."""
        return str(env.rules)

    def legend(self, symbols: Symbols) -> str:  # noqa: ARG002
        """Return one line that explains the symbols, or "" if the game has no board."""
        return ""

    def actions(self, env: Any) -> tuple[str, ...]:
        """Return the names of the actions, in the order of the env's action numbers.

        For a game whose actions are words, the forms of its actions, such as ``click[name]``.
        """
        names: tuple[str, ...] = env.action_names
        return names

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:  # noqa: ARG002
        """Return the current state in one of ``FORMATS``."""
        return str(env.observe())


def explain(
    env: Any,
    actions: Sequence[Action],
    budget: Budget,
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return a short thought that leads to the actions of a turn and is true of the state.

    It is that of the game's text face, or the plan if the face has no ``explain``.

    Args:
        env: The base environment.
        actions: At least one, at most ``budget.this_turn``.
        budget: Remaining actions and turns before the turn.
        names: Other names of actions, by the game's.
    """
    face: Any = env.text
    if hasattr(face, "explain"):
        thought = face.explain(env, actions, budget)
    else:
        thought = f"My plan: {', then '.join(action_texts(face.actions(env), actions))}."
    return renamed(thought, names)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other ``names`` of actions in place of the game's."""
    if not names:
        return text
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<!\w)({longest_first})(?!\w)", lambda match: str(names[match[0]]), text)


def action_texts(names: Sequence[str], actions: Sequence[Action]) -> tuple[str, ...]:
    """Return actions as written in replies: the names of numbered ones, words as they are."""
    return tuple([each if isinstance(each, str) else names[each] for each in actions])


def countdown(budget: Budget) -> str:
    """Return the part of a thought that comes before actions counted down from ``budget.this_turn``."""
    return f"Limit for this turn: {budget.this_turn}, counted down:"
