"""From the text of an answer to actions."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.vocabulary import WRAPPING, Vocabulary

_NOTHING: Final = WRAPPING + "|"
_SHORT: Final = 128


def usual_actions(
    answer: str, names: Sequence[str], actions_per_turn: int
) -> tuple[int, ...] | None:
    """Return the actions of an answer without any defect; arguments as of ``read_actions``."""
    read = _read_short if len(answer) <= _SHORT else _read_names
    actions = read(answer, tuple(names))
    return actions if actions is not None and len(actions) <= actions_per_turn else None


def read_actions(
    answer: str,
    names: Sequence[str],
    actions_per_turn: int,
    found: set[Defect],
    soft: set[SoftDefect],
) -> tuple[int, ...]:
    """Return the actions of an answer, at most as many as a turn may have.

    Args:
        answer: The text between the answer tags.
        names: The game's action names.
        actions_per_turn: Maximum number of actions.
        found: Where defects are added.
        soft: Where soft defects are added.
    """
    usual = usual_actions(answer, names, actions_per_turn)
    if usual is not None:
        return usual
    if not usual_characters(answer).strip(_NOTHING):
        found.add(Defect.EMPTY_ANSWER)
        return ()
    actions: list[int] = []
    vocabulary = _vocabulary(tuple(names))
    for part in answer.split("||"):
        reading = vocabulary.read(part)
        room = actions_per_turn - len(actions)
        if reading is None:
            found.add(Defect.UNKNOWN_ACTION)
            break
        if not reading.actions:
            found.add(Defect.EMPTY_ACTION)
            continue
        if room:
            soft |= reading.soft
        actions += reading.actions[:room]
        if len(reading.actions) > room:
            found.add(Defect.TOO_MANY_ACTIONS)
            break
    return tuple(actions)


def _read_names(answer: str, names: tuple[str, ...]) -> tuple[int, ...] | None:
    return _vocabulary(names).read_names(answer)


_read_short: Final = lru_cache(maxsize=4096)(_read_names)
"""Remembers answers: agents give the same short ones again and again."""


@lru_cache(maxsize=1024)
def _vocabulary(names: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(names)
