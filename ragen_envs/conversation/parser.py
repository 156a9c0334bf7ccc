"""From a reply to actions. Total: any string gives actions and a list of named defects.

The form is ``<think>…</think><answer>A || B</answer>``, without the first part when thinking is off.
Tags and action names are matched whatever their case, and an action may be wrapped in quotes, brackets
or a full stop. Text outside the tags is allowed. Everything else that is off has a name.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

MAX_REPLY_CHARACTERS: Final = 65_536
"""Longer replies are cut here before they are read."""


class Defect(StrEnum):
    """What can be wrong with a reply."""

    EMPTY = "empty"
    """Nothing but white space."""
    TRUNCATED = "truncated"
    """The model was cut off by its token limit."""
    TOO_LONG = "too_long"
    """More than ``MAX_REPLY_CHARACTERS`` characters."""
    NO_THINK = "no_think"
    """No ``<think>`` before the answer although thinking is on."""
    UNCLOSED_THINK = "unclosed_think"
    """``<think>`` without ``</think>``."""
    UNEXPECTED_THINK = "unexpected_think"
    """``<think>`` although thinking is off."""
    NO_ANSWER = "no_answer"
    """No ``<answer>``."""
    UNCLOSED_ANSWER = "unclosed_answer"
    """``<answer>`` without ``</answer>``; what follows is still read."""
    TWO_ANSWERS = "two_answers"
    """More than one answer; the first is read."""
    EMPTY_ANSWER = "empty_answer"
    """An answer without any action."""
    EMPTY_ACTION = "empty_action"
    """Nothing between two separators; skipped."""
    UNKNOWN_ACTION = "unknown_action"
    """A name that the game does not have; reading stops there."""
    TOO_MANY_ACTIONS = "too_many_actions"
    """More actions than a turn may have; the first ones count."""


class ParsedReply(NamedTuple):
    """What a reply says."""

    actions: tuple[int, ...]
    """Numbers of the actions that could be read, at most as many as a turn may have."""
    defects: tuple[Defect, ...]
    """Each defect once, in the order of ``Defect``."""
    thought: str
    """Text between the think tags, or ""."""

    @property
    def is_valid(self) -> bool:
        """Whether the reply has no defect."""
        return not self.defects


_THINK_OPEN: Final = re.compile(r"<think>", re.IGNORECASE)
_THINK_CLOSE: Final = re.compile(r"</think>", re.IGNORECASE)
_ANSWER_OPEN: Final = re.compile(r"<answer>", re.IGNORECASE)
_ANSWER_CLOSE: Final = re.compile(r"</answer>", re.IGNORECASE)
_PLAIN: Final = re.compile(
    r"[^<]*<think>([^<]*)</think>[^<]*<answer>([^<]*)</answer>[^<]*", re.IGNORECASE
)
"""A reply with these four tags and no other."""
_WRAPPING: Final = " \t\r\n\v\f\"'`*.,;:()[]{}"
_NOTHING: Final = _WRAPPING + "|"


def parse_reply(
    reply: str, names: Sequence[str], actions_per_turn: int, think: bool, truncated: bool = False
) -> ParsedReply:
    """Read a reply.

    Args:
        reply: Any string.
        names: The game's action names, in the order of their numbers.
        actions_per_turn: Most actions that count.
        think: Whether a thought is required (True) or out of place (False).
        truncated: Whether the model was cut off by its token limit.
    """
    found: set[Defect] = set()
    if truncated:
        found.add(Defect.TRUNCATED)
    if len(reply) > MAX_REPLY_CHARACTERS:
        found.add(Defect.TOO_LONG)
        reply = reply[:MAX_REPLY_CHARACTERS]
    if not reply.strip():
        found.add(Defect.EMPTY)
        return ParsedReply((), _in_order(found), "")
    plain = _PLAIN.fullmatch(reply) if think else None
    answer: str | None
    if plain is not None:
        thought, answer = plain.groups()
    else:
        thought, rest = _split_thought(reply, think, found)
        answer = _find_answer(rest, found)
    actions = () if answer is None else _read_actions(answer, names, actions_per_turn, found)
    return ParsedReply(actions, _in_order(found), thought)


def _in_order(found: set[Defect]) -> tuple[Defect, ...]:
    return tuple(defect for defect in Defect if defect in found) if found else ()


def _split_thought(reply: str, think: bool, found: set[Defect]) -> tuple[str, str]:
    """Return the thought and the text in which the answer is looked for."""
    opening = _THINK_OPEN.search(reply)
    answer = _ANSWER_OPEN.search(reply)
    if opening is None or (answer is not None and answer.start() < opening.start()):
        if think:
            found.add(Defect.NO_THINK)
        elif opening is not None:
            found.add(Defect.UNEXPECTED_THINK)
        return "", reply
    if not think:
        found.add(Defect.UNEXPECTED_THINK)
    closing = _THINK_CLOSE.search(reply, opening.end())
    if closing is not None:
        return reply[opening.end() : closing.start()], reply[closing.end() :]
    found.add(Defect.UNCLOSED_THINK)
    if answer is None:
        return reply[opening.end() :], ""
    return reply[opening.end() : answer.start()], reply[answer.start() :]


def _find_answer(text: str, found: set[Defect]) -> str | None:
    opening = _ANSWER_OPEN.search(text)
    if opening is None:
        found.add(Defect.NO_ANSWER)
        return None
    closing = _ANSWER_CLOSE.search(text, opening.end())
    if closing is None:
        found.add(Defect.UNCLOSED_ANSWER)
        return text[opening.end() :]
    if _ANSWER_OPEN.search(text, opening.end()) is not None:
        found.add(Defect.TWO_ANSWERS)
    return text[opening.end() : closing.start()]


def _read_actions(
    answer: str, names: Sequence[str], actions_per_turn: int, found: set[Defect]
) -> tuple[int, ...]:
    numbers = _numbers(tuple(names))
    if not answer.strip(_NOTHING):
        found.add(Defect.EMPTY_ANSWER)
        return ()
    actions: list[int] = []
    for part in answer.split("||"):
        name = part.strip(_WRAPPING).casefold()
        if not name:
            found.add(Defect.EMPTY_ACTION)
        elif name not in numbers:
            found.add(Defect.UNKNOWN_ACTION)
            break
        elif len(actions) == actions_per_turn:
            found.add(Defect.TOO_MANY_ACTIONS)
            break
        else:
            actions.append(numbers[name])
    return tuple(actions)


@lru_cache(maxsize=1024)
def _numbers(names: tuple[str, ...]) -> dict[str, int]:
    """Return the action that each name means, whatever its case."""
    return {name.casefold(): number for number, name in enumerate(names)}


def format_reply(actions: Sequence[str], thought: str | None) -> str:
    """Return a reply in the form that is asked for; a thought of None leaves its part out."""
    answer = f"<answer>{' || '.join(actions)}</answer>"
    return answer if thought is None else f"<think>{thought}</think>{answer}"
