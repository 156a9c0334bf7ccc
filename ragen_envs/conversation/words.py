"""Read replies to a game whose actions are words: texts between ``||``, each legal where it would run."""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.conversation.vocabulary import (
    LIST_OF_QUOTED,
    QUOTED,
    SEPARATORS,
    between,
    separator_pattern,
)
from ragen_envs.game.word_game import WordGameEnv

_Form = tuple[SoftDefect, re.Pattern[str]]
"""Form in which an action, the last group of the pattern, is written."""

_WRAPPERS: Final[Sequence[_Form]] = (
    (SoftDefect.MARKDOWN, re.compile(r"(\*\*|\*|```|`)(.*)\1", re.DOTALL)),
    (SoftDefect.PUNCTUATION, re.compile(r"([\"'])(.*)\1", re.DOTALL)),
    (SoftDefect.PUNCTUATION, re.compile(r"\((.*)\)", re.DOTALL)),
)
# A marker needs a space after it: "1.5 + 3" is no item of a list.
_MARKERS: Final[Sequence[_Form]] = (
    (SoftDefect.NUMBERED_LIST, re.compile(r"\(?\d{1,3}[.):]\s(.*)", re.DOTALL)),
    (SoftDefect.BULLETED_LIST, re.compile(r"(?:[-*+–—·]\s|[•‣◦])(.*)", re.DOTALL)),
)
_STOP: Final[_Form] = (SoftDefect.PUNCTUATION, re.compile(r"(.*)[.;]", re.DOTALL))
_FENCE: Final = re.compile(r"```(?:json|text)?(\s.*)```", re.DOTALL)
_SEPARATORS: Final = (
    *(re.compile(f"(?P<{kind}>{form})", re.IGNORECASE) for kind, form in SEPARATORS.items()),
    separator_pattern(()),
)
"""Each separator alone, then all together."""


def read_words(
    game: WordGameEnv, answer: str, actions_per_turn: int, defects: set[Defect], soft: set[SoftDefect]
) -> tuple[tuple[str, ...], str]:
    """Return the actions between the answer tags, at most as many as a turn may have, and why one is illegal.

    Each action is checked in the state in which it would run; reading stops at the first illegal one. What
    follows an action that ends the game is kept as it is, because it does not run. The game is left as it is;
    defects and soft defects are added to the sets.
    """
    parts = _parts(game, answer, soft)
    texts = list(filter(None, parts))
    if not texts:
        defects.add(Defect.EMPTY_ANSWER)
        return (), ""
    played, ended = game, False
    actions: list[str] = []
    for number, text in enumerate(texts, 1):
        if len(actions) == actions_per_turn:
            defects.add(Defect.TOO_MANY_ACTIONS)
            break
        action, reason = (text, "") if ended else _legal_form(played, text, soft)
        run = _run_list(played, text) if reason else None
        if run is not None:
            more, departures, played, ended = run
            soft |= departures
            actions += more
        elif reason:
            defects.add(Defect.ILLEGAL_ACTION)
            return tuple(actions), reason
        else:
            actions.append(action)
            if number < len(texts) and not ended and not game.has_fixed_legality:
                played = copy.deepcopy(game) if played is game else played
                ended = played.act(action)[1]
        if len(actions) > actions_per_turn:
            defects.add(Defect.TOO_MANY_ACTIONS)
            break
    if len(texts) < len(parts):
        soft.add(SoftDefect.EMPTY_ACTION)
    return tuple(actions[:actions_per_turn]), ""


def _run_list(game: WordGameEnv, text: str) -> tuple[list[str], set[SoftDefect], WordGameEnv, bool] | None:
    """Return the actions of a list in another form, or None unless every one of them is legal.

    With them come the departures in form, the game after them, and whether it has ended.
    """
    for pieces, departures in _lists(text):
        if _begins_legally(game, pieces):
            own, ended = game if game.has_fixed_legality else copy.deepcopy(game), False
            actions, soft = list[str](), set(departures)
            for piece in pieces:
                action, reason = (piece, "") if ended else _legal_form(own, piece, soft)
                if reason:
                    break
                actions.append(action)
                if not ended and not game.has_fixed_legality:
                    ended = own.act(action)[1]
            else:
                return actions, soft, own, ended
    return None


def _lists(text: str) -> Iterator[tuple[Sequence[str], set[SoftDefect]]]:
    """Yield possible actions of a list, and its departures from texts between ``||``."""
    bare = usual_characters(text).strip()
    soft = set() if bare == text else {SoftDefect.UNUSUAL_CHARACTERS}
    if bare.startswith("[") and bare.endswith("]"):
        soft = soft | {SoftDefect.BRACKETED_LIST}
        if LIST_OF_QUOTED.fullmatch(bare):
            yield QUOTED.findall(bare), soft
            yield [", ".join(QUOTED.findall(bare))], soft
        bare = bare[1:-1].strip()
        yield [bare], soft
    for pattern in _SEPARATORS:
        kinds = {SoftDefect(str(match.lastgroup)) for match in pattern.finditer(bare)}
        if kinds:
            pieces = map(str.strip, between(pattern, bare))
            yield list(filter(None, pieces)), soft | kinds


def _parts(game: WordGameEnv, answer: str, soft: set[SoftDefect]) -> list[str]:
    """Return the texts of the actions, without a code fence around them that is no action itself."""
    parts, separators = _split(game, answer)
    fence = _FENCE.fullmatch(answer.strip())
    if fence is not None and not _begins_legally(game, parts):
        inside, within = _split(game, fence.group(1))
        if len(inside) == 1 or _begins_legally(game, inside):
            parts, separators = inside, within | {SoftDefect.MARKDOWN}
    soft |= separators
    return parts


def _split(game: WordGameEnv, answer: str) -> tuple[list[str], set[SoftDefect]]:
    """Return the texts between the separators, and the soft defect of these, if any."""
    parts = [part.strip() for part in answer.split("||")]
    lines = [line.strip() for line in answer.split("\n") if line.strip()]
    if len(parts) == 1 and len(lines) > 1 and _begins_legally(game, lines):
        return lines, {SoftDefect.LINE_BREAKS}
    return parts, set()


def _begins_legally(game: WordGameEnv, parts: Sequence[str]) -> bool:
    first = next(filter(None, parts), "")
    return not _legal_form(game, first, set())[1]


def _legal_form(game: WordGameEnv, part: str, soft: set[SoftDefect]) -> tuple[str, str]:
    """Return an action without what is wrapped around it, and why it is illegal, or ""."""
    first = game.legal(part)
    if first.is_legal:
        return part, ""
    for bare, departures in _bare_forms(part):
        if departures and bare and game.legal(bare).is_legal:
            soft |= departures
            return bare, ""
    return part, first.reason


def _bare_forms(part: str) -> Iterator[tuple[str, set[SoftDefect]]]:
    """Yield possible actions, each with the departures of the text: the fewest first."""
    usual = usual_characters(part).strip()
    unusual = set() if usual == part else {SoftDefect.UNUSUAL_CHARACTERS}
    for forms in (_WRAPPERS, (*_MARKERS, _STOP, *_WRAPPERS, _STOP)):
        bare, departures = usual, set(unusual)
        for kind, form in forms:
            match = form.fullmatch(bare)
            if match is not None:
                bare = match.group(match.lastindex or 0).strip()
                departures.add(kind)
        yield bare, departures
