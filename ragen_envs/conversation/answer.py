"""From the text of an answer to actions."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.vocabulary import WRAPPING, Vocabulary

_NOTHING: Final = WRAPPING + "|"


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
    vocabulary = _vocabulary(tuple(names))
    usual = vocabulary.read_names(answer)
    if usual is not None and len(usual) <= actions_per_turn:
        return usual
    if not usual_characters(answer).strip(_NOTHING):
        found.add(Defect.EMPTY_ANSWER)
        return ()
    actions: list[int] = []
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


@lru_cache(maxsize=1024)
def _vocabulary(names: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(names)
