"""The action names of a game, and how models write one or several of them.

A text that is the name of an action is that action. Any other text is read as a list in one of the forms
that ``SoftDefect`` names, as a whole or not at all: prose, alternatives and names that the game does not
have are unknown, never guessed. A separator that occurs in a name of the game separates nothing there.
All of this takes time linear in the text.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect

_SPACE: Final = " \t\r\n\v\f"
_MARKDOWN: Final = "*`"
_WRAPPING: Final = _SPACE + _MARKDOWN + "\"'.,;:()[]{}"
"""Characters that may surround the name of an action."""
_NOTHING: Final = _WRAPPING + "|"
_SHORT: Final = 128
"""Most characters of an answer that is remembered."""

SEPARATORS: Final = {
    SoftDefect.LINE_BREAKS: r"[\r\n\v\f\x85\u2028\u2029]+",
    SoftDefect.COMMAS: r",",
    SoftDefect.SEMICOLONS: r";",
    SoftDefect.SINGLE_BARS: r"\|+",
    SoftDefect.ARROW_SEPARATORS: r"[-=]{1,3}>|[⇒⟶⟹➜➔]",
    SoftDefect.WORD_SEPARATORS: r"\b(?:and|then)\b",
}
_MARKERS: Final = {
    SoftDefect.NUMBERED_LIST: re.compile(r"\s*\(?\d{1,3}[.):]\s*"),
    SoftDefect.BULLETED_LIST: re.compile(r"\s*(?:[-*+–—]\s|[•‣◦·])\s*"),
}
QUOTED: Final = re.compile(r'"([^"\\]*)"')
LIST_OF_QUOTED: Final = re.compile(r'\[\s*"[^"\\]*"\s*(?:,\s*"[^"\\]*"\s*)*\]')
_NESTED_LIST: Final = re.compile(r"\[\s*\[")
_ARROWS: Final = {
    "↑": "up", "⬆": "up", "⇧": "up", "↓": "down", "⬇": "down", "⇩": "down",
    "←": "left", "⬅": "left", "⇦": "left", "→": "right", "➡": "right", "⇨": "right",
}  # fmt: skip
_ARROW_STYLE: Final = re.compile(f"(?<=[{''.join(_ARROWS)}])[\ufe0e\ufe0f]")
_ARROW_BETWEEN: Final = re.compile("[→➡]")
_NEVER: Final = "(?!)"


def usual_actions(answer: str, names: Sequence[str], actions_per_turn: int) -> tuple[int, ...] | None:
    """Return the actions of an answer without any defect; arguments as of ``read_actions``."""
    read = _read_short if len(answer) <= _SHORT else _read_names
    actions = read(answer, tuple(names))
    return actions if actions is not None and len(actions) <= actions_per_turn else None


def read_actions(
    answer: str, names: Sequence[str], actions_per_turn: int, defects: set[Defect], soft: set[SoftDefect]
) -> tuple[int, ...]:
    """Return the actions between the answer tags, at most as many as a turn may have.

    Defects and soft defects are added to the sets.
    """
    usual = usual_actions(answer, names, actions_per_turn)
    if usual is not None:
        return usual
    if not usual_characters(answer).strip(_NOTHING):
        defects.add(Defect.EMPTY_ANSWER)
        return ()
    actions: list[int] = []
    has_empty = False
    vocabulary = _vocabulary(tuple(names))
    for part in answer.split("||"):
        reading = vocabulary.read(part)
        room = actions_per_turn - len(actions)
        if reading is None:
            defects.add(Defect.UNKNOWN_ACTION)
            break
        numbers, departures = reading
        if not numbers:
            has_empty = True
            continue
        if room:
            soft |= departures
        actions += numbers[:room]
        if len(numbers) > room:
            defects.add(Defect.TOO_MANY_ACTIONS)
            break
    if has_empty and actions:
        soft.add(SoftDefect.EMPTY_ACTION)
    return tuple(actions)


def _read_names(answer: str, names: tuple[str, ...]) -> tuple[int, ...] | None:
    return _vocabulary(names).read_names(answer)


_read_short: Final = lru_cache(maxsize=4096)(_read_names)
"""Remembers answers: agents give the same short ones again and again."""


@lru_cache(maxsize=1024)
def _vocabulary(names: tuple[str, ...]) -> "Vocabulary":
    return Vocabulary(names)


Reading = tuple[Sequence[int], set[SoftDefect]]
"""The numbers of the actions of a text, none if it holds only separators, and its departures in form."""


class Vocabulary:
    """Reads a game's action names, whatever their case.

    Args:
        names: The names, in the order of their numbers.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._numbers = {name.casefold(): number for number, name in enumerate(names)}
        self._longest = 16 + 4 * max(map(len, names), default=0)

    # The rest is needed for replies in unusual forms only, and names may change from level to level.

    @cached_property
    def _usual(self) -> list[str]:
        return [usual_characters(name) for name in self._names]

    @cached_property
    def _normalised(self) -> dict[str, int]:
        names = [_normalised(name) for name in self._usual]
        return {name: number for number, name in enumerate(names) if names.count(name) == 1}

    @cached_property
    def _separator(self) -> re.Pattern[str]:
        return separator_pattern(self._usual)

    @cached_property
    def _markers(self) -> dict[SoftDefect, re.Pattern[str]]:
        return _markers(self._usual)

    @cached_property
    def _reads_arrows(self) -> bool:
        return not any(arrow in name for name in self._usual for arrow in _ARROWS)

    @cached_property
    def _arrows(self) -> dict[str, int]:
        named = set(_ARROWS.values()) <= set(self._numbers)
        return {a: self._numbers[n] for a, n in _ARROWS.items()} if named else {}

    def read_names(self, answer: str) -> tuple[int, ...] | None:
        """Return the actions of an answer that is names of actions between ``||``, or None."""
        numbers = self._numbers
        try:
            return tuple([numbers[name.strip(_SPACE)] for name in answer.casefold().split("||")])
        except KeyError:
            return None

    def read(self, text: str) -> Reading | None:
        """Read a text between two ``||``; return None if its meaning is not certain."""
        number = self._numbers.get(text.strip(_SPACE).casefold())
        if number is not None:
            return (number,), set()
        soft: set[SoftDefect] = set()
        bare = _unwrap(text, soft)
        if not bare:
            return (), set()
        number = self._numbers.get(bare.casefold())
        if number is None:
            return self._read_list(text)
        if _MARKERS[SoftDefect.BULLETED_LIST].match(text):
            soft = (soft - {SoftDefect.MARKDOWN}) | {SoftDefect.BULLETED_LIST}
        _name_brackets(text.strip(), soft)
        return (number,), soft

    def _read_list(self, raw: str) -> Reading | None:
        soft: set[SoftDefect] = set()
        styled = _ARROW_STYLE.sub("", raw)
        text = usual_characters(styled)
        if text != styled:
            soft.add(SoftDefect.UNUSUAL_CHARACTERS)
        text = text.strip()
        if _NESTED_LIST.match(text):
            return None
        if LIST_OF_QUOTED.fullmatch(text):
            quoted = [self._find(name, soft) for name in QUOTED.findall(text)]
            known = [number for number in quoted if number is not None]
            if len(known) == len(quoted):
                return known, soft | {SoftDefect.BRACKETED_LIST}
        actions: list[int] = []
        separators = self._separator.finditer(text)  # "||" stands for full-width bars
        soft |= {SoftDefect(str(match.lastgroup)) for match in separators if match.group() != "||"}
        for piece in between(self._separator, text):
            read = self._read_piece(piece, soft)
            if read is None:
                return None
            actions += read
        _name_brackets(text, soft)
        return actions, soft

    def _read_piece(self, piece: str, soft: set[SoftDefect]) -> Sequence[int] | None:
        """Return the actions of a text without separators: one or none, or several arrows."""
        number = self._find(piece.strip(), soft)
        if number is not None:
            return (number,)
        for kind, marker in self._markers.items():
            match = marker.match(piece)
            if match is not None:
                soft.add(kind)
                piece = piece[match.end() :]
                break
        bare = _unwrap(piece, soft)
        if not bare:
            return ()
        number = self._find(bare, soft)
        return self._read_arrows(bare, soft) if number is None else (number,)

    def _read_arrows(self, text: str, soft: set[SoftDefect]) -> Sequence[int] | None:
        """Return the actions of arrows alone, or of names with arrows between them."""
        if not self._reads_arrows:
            return None
        words = text.split()
        signs = "".join(words)
        if all(sign in self._arrows for sign in signs):
            seconds = words[1::2]
            if (
                seconds
                and all(map(_ARROW_BETWEEN.fullmatch, seconds))
                and not any(map(_ARROW_BETWEEN.fullmatch, words[::2]))
            ):
                return None  # "↑ → ↓" may be up, right, down, or up, then down
            soft.add(SoftDefect.ARROW_SYMBOLS)
            return [self._arrows[sign] for sign in signs]
        pieces = _ARROW_BETWEEN.split(text)
        numbers = [self._find(_unwrap(piece, soft), soft) for piece in pieces]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return None
        soft.add(SoftDefect.ARROW_SEPARATORS)
        return known

    def _find(self, name: str, soft: set[SoftDefect]) -> int | None:
        """Return the action of a name, normalised (NFKC) if it is not known as it is."""
        number = self._numbers.get(name.casefold())
        # Normalising takes quadratic time in the worst case, so only what may be a name is normalised.
        if number is None and len(name) <= self._longest:
            number = self._normalised.get(_normalised(name))
            if number is not None:
                soft.add(SoftDefect.UNUSUAL_CHARACTERS)
        return number


def separator_pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of the separators that occur in no name, each in a group of its name."""
    kinds = [
        f"(?P<{kind}>{pattern})"
        for kind, pattern in SEPARATORS.items()
        if not any(re.search(pattern, name, re.IGNORECASE) for name in names)
    ]
    return re.compile("|".join(kinds) or _NEVER, re.IGNORECASE)


def between(separator: re.Pattern[str], text: str) -> list[str]:
    """Return the texts between separators, without what their groups match."""
    return separator.split(text)[:: separator.groups + 1]


def _markers(names: Sequence[str]) -> dict[SoftDefect, re.Pattern[str]]:
    """Return the marks of lists that cannot be part of a name."""
    numbered = any(name.lstrip()[:1].isdigit() for name in names)
    return {
        kind: marker
        for kind, marker in _MARKERS.items()
        if not any(marker.match(name) for name in names)
        and not (numbered and kind is SoftDefect.NUMBERED_LIST)
    }


def _unwrap(text: str, soft: set[SoftDefect]) -> str:
    """Return a text without the characters that surround it, which are added to the soft defects."""
    start = len(text) - len(text.lstrip(_WRAPPING))
    bare = text.strip(_WRAPPING)
    around = (text[:start] + text[start + len(bare) :]).strip(_SPACE)
    if any(sign in around for sign in _MARKDOWN):
        soft.add(SoftDefect.MARKDOWN)
    if around.strip(_SPACE + _MARKDOWN):
        soft.add(SoftDefect.PUNCTUATION)
    return bare


def _name_brackets(text: str, soft: set[SoftDefect]) -> None:
    """Call the brackets and quotes of a list a list."""
    if text.startswith("[") and text.endswith("]"):
        soft.discard(SoftDefect.PUNCTUATION)
        soft.add(SoftDefect.BRACKETED_LIST)


def _normalised(name: str) -> str:
    return unicodedata.normalize("NFKC", name.casefold()).casefold()
