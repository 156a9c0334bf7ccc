"""Read a reply: any string gives actions and two lists of named defects.

The form is ``<think>…</think><answer>A || B</answer>``, without the first part when thinking is off.
Tags and action names are matched whatever their case. Text outside the tags is allowed. Everything else
that is off has a name: a ``Defect`` makes the reply invalid, and a ``SoftDefect`` is a form of answer that
is read all the same.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from ragen_envs.conversation.characters import FULL_WIDTH, INVISIBLE, usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.vocabulary import read_actions, usual_actions
from ragen_envs.conversation.words import read_words
from ragen_envs.errors import RagenError
from ragen_envs.game.oracle import Action
from ragen_envs.game.word_game import WordGameEnv

MAX_REPLY_CHARACTERS: Final = 65_536
"""Longer replies are cut here before they are read."""
THINK_PREFIX: Final = "<think>"
"""Beginning of the assistant's turn where the setting ``think_prefix`` is on."""


class ParsedReply(NamedTuple):
    """The parts of a reply and its defects."""

    actions: tuple[Any, ...]
    """The actions that could be read, at most as many as a turn may have: numbers, or words."""
    defects: tuple[Defect | SoftDefect, ...]
    """Each defect once, in the order of ``Defect``; then, where they are penalised, the soft ones."""
    thought: str
    """Text between the think tags, or ""."""
    thought_start: int = 0
    """Index in the reply of the first character of the thought, if there is one."""
    soft_defects: tuple[SoftDefect, ...] = ()
    """Each soft defect once, in the order of ``SoftDefect``; none where they are penalised."""
    reason: str = ""
    """Reason why an action is illegal, in games whose actions are words; else ""."""

    @property
    def is_valid(self) -> bool:
        """Whether the reply has no defect; soft ones do not matter unless they are penalised."""
        return not self.defects


def _tag(name: str) -> str:
    """Return a pattern of a tag, also with full-width or invisible characters."""
    signs = (f"[{sign}{chr(ord(sign) + FULL_WIDTH)}]" for sign in name)
    return f"[<﹤＜]{f'[{INVISIBLE}]*'.join(['', *signs, ''])}[>﹥＞]"


_THINK_OPEN: Final = re.compile(_tag("think"), re.IGNORECASE)
_THINK_CLOSE: Final = re.compile(_tag("/think"), re.IGNORECASE)
_ANSWER_OPEN: Final = re.compile(_tag("answer"), re.IGNORECASE)
_ANSWER_CLOSE: Final = re.compile(_tag("/answer"), re.IGNORECASE)
_STARTS_WITH_THINK: Final = re.compile(rf"[\s{INVISIBLE}]*{_tag('think')}", re.IGNORECASE)
_PLAIN: Final = re.compile("[^<]*<think>([^<]*)</think>[^<]*<answer>([^<]*)</answer>[^<]*", re.IGNORECASE)
"""An ASCII reply with these four tags and no other; this form is the usual one, and is read faster."""

_OBJECT: Final = re.compile(
    r'(?:```(?:json)?\s*)?\{\s*"actions?"\s*:\s*(\[.*\]|"[^"]*")\s*\}(?:\s*```)?', re.DOTALL
)
"""An answer that is a JSON object with a list of actions, or with text."""
_BOX: Final = re.compile(r"\${0,2}\\(?:boxed|text\w*|math\w*)\s*\{([^{}]*)\}\${0,2}")
"""LaTeX around actions; two levels are read, as in ``\\boxed{\\text{Up}}``."""

_Name = TypeVar("_Name", bound=StrEnum)


def parse_reply(
    reply: str,
    names: Sequence[str] | WordGameEnv,
    actions_per_turn: int,
    think: bool,
    truncated: bool = False,
    *,
    prefix: str = "",
    penalise_soft: bool = False,
) -> ParsedReply:
    """Read a reply.

    Args:
        reply: Any string.
        names: The game's action names, in the order of their numbers, or a game whose actions are words.
        actions_per_turn: Maximum number of actions.
        think: Whether a thought is required (True) or out of place (False).
        truncated: Whether the model was cut off by its token limit.
        prefix: The beginning of the assistant's turn, which the reply continues: ``THINK_PREFIX`` or "".
        penalise_soft: Whether soft defects count as defects.

    Raises:
        RagenError: The reply is not a string.
    """
    if not isinstance(reply, str):
        raise RagenError(f"the reply is {reply!r:.80}, but must be a string")
    turn = whole_turn(reply, prefix)
    written = len(turn) - len(reply)  # characters of the turn that were written before the reply
    plain = None
    if think and reply.isascii() and len(reply) <= MAX_REPLY_CHARACTERS:
        plain = _PLAIN.fullmatch(turn)
    if plain is not None and not truncated and not isinstance(names, WordGameEnv):
        thought, answer = plain.groups()
        usual = usual_actions(answer, names, actions_per_turn)
        if usual is not None:
            return ParsedReply(usual, (), thought, plain.start(1) - written)
    defects: set[Defect] = set()
    soft: set[SoftDefect] = set()
    if truncated:
        defects.add(Defect.TRUNCATED)
    if len(reply) > MAX_REPLY_CHARACTERS:
        defects.add(Defect.TOO_LONG)
        reply = reply[:MAX_REPLY_CHARACTERS]
    if not usual_characters(reply).strip():
        defects.add(Defect.EMPTY)
        named = _in_order(Defect, defects)
        return ParsedReply((), named, "")
    if plain is not None:
        thought, answer = plain.groups()
        start = plain.start(1)
    else:
        thought, start, rest = _split_thought(whole_turn(reply, prefix), think, defects, soft)
        answer = _find_answer(rest, defects, soft)
    actions: tuple[Action, ...] = ()
    reason = ""
    if answer is not None:
        answer = _unpacked(answer, soft)
        if isinstance(names, WordGameEnv):
            actions, reason = read_words(names, answer, actions_per_turn, defects, soft)
        else:
            actions = read_actions(answer, names, actions_per_turn, defects, soft)
    named, tolerated = _in_order(Defect, defects), _in_order(SoftDefect, soft)
    place = start - written
    if penalise_soft:
        return ParsedReply(actions, (*named, *tolerated), thought, place, reason=reason)
    return ParsedReply(actions, named, thought, place, tolerated, reason)


def whole_turn(reply: str, prefix: str) -> str:
    """Return the assistant's turn: the prefix and the reply, which may repeat the prefix."""
    if not prefix or _STARTS_WITH_THINK.match(reply):
        return reply
    return prefix + reply


def _in_order(kind: type[_Name], names: set[_Name]) -> tuple[_Name, ...]:
    return tuple(name for name in kind if name in names) if names else ()


def _search(tag: re.Pattern[str], text: str, start: int, soft: set[SoftDefect]) -> re.Match[str] | None:
    match = tag.search(text, start)
    if match is not None and not match.group().isascii():
        soft.add(SoftDefect.UNUSUAL_CHARACTERS)
    return match


def _split_thought(
    reply: str, think: bool, defects: set[Defect], soft: set[SoftDefect]
) -> tuple[str, int, str]:
    """Return the thought, the index where it starts, and the text in which the answer is looked for."""
    opening = _search(_THINK_OPEN, reply, 0, soft)
    answer = _ANSWER_OPEN.search(reply)
    if opening is None or (answer is not None and answer.start() < opening.start()):
        if think:
            defects.add(Defect.NO_THINK)
        elif opening is not None:
            defects.add(Defect.UNEXPECTED_THINK)
        return "", 0, reply
    if not think:
        defects.add(Defect.UNEXPECTED_THINK)
    start = opening.end()
    closing = _search(_THINK_CLOSE, reply, start, soft)
    if closing is not None:
        return reply[start : closing.start()], start, reply[closing.end() :]
    defects.add(Defect.UNCLOSED_THINK)
    if answer is None:
        return reply[start:], start, ""
    return reply[start : answer.start()], start, reply[answer.start() :]


def _find_answer(text: str, defects: set[Defect], soft: set[SoftDefect]) -> str | None:
    opening = _search(_ANSWER_OPEN, text, 0, soft)
    if opening is None:
        defects.add(Defect.NO_ANSWER)
        return None
    closing = _search(_ANSWER_CLOSE, text, opening.end(), soft)
    if closing is None:
        defects.add(Defect.UNCLOSED_ANSWER)
        return text[opening.end() :]
    if _search(_ANSWER_OPEN, text, opening.end(), soft) is not None:
        defects.add(Defect.TWO_ANSWERS)
    return text[opening.end() : closing.start()]


def _unpacked(answer: str, soft: set[SoftDefect]) -> str:
    """Return an answer without a JSON object or LaTeX boxes around its actions."""
    match = _OBJECT.fullmatch(usual_characters(answer).strip())
    if match is not None:
        soft.add(SoftDefect.JSON_OBJECT)
        return match.group(1).strip('"')
    if "\\boxed" not in answer:
        return answer
    soft.add(SoftDefect.BOXED)
    return _BOX.sub(r"\1", _BOX.sub(r"\1", answer))


def format_reply(actions: Sequence[str], thought: str | None) -> str:
    """Return a reply in the required format; a thought of None omits the thought."""
    answer = f"<answer>{' || '.join(actions)}</answer>"
    return answer if thought is None else f"<think>{thought}</think>{answer}"
