"""Read replies to a game whose actions are words: texts between ``||``, each legal where it would run."""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.game.word_game import WordGameEnv

_Form = tuple[SoftDefect, re.Pattern[str]]
"""What surrounds an action, which is the last group of the pattern."""

_WRAPPERS: Final[Sequence[_Form]] = (
    (SoftDefect.MARKDOWN, re.compile(r"(\*\*|\*|```|`)(.*)\1", re.DOTALL)),
    (SoftDefect.PUNCTUATION, re.compile(r"([\"'])(.*)\1", re.DOTALL)),
)
# A marker needs a space after it: "1.5 + 3" is no item of a list.
_MARKERS: Final[Sequence[_Form]] = (
    (SoftDefect.NUMBERED_LIST, re.compile(r"\(?\d{1,3}[.):]\s(.*)", re.DOTALL)),
    (SoftDefect.BULLETED_LIST, re.compile(r"(?:[-*+–—·]\s|[•‣◦])(.*)", re.DOTALL)),
)
_STOP: Final[_Form] = (SoftDefect.PUNCTUATION, re.compile(r"(.*)[.;]", re.DOTALL))
_FENCE: Final = re.compile(r"```(\s.*)```", re.DOTALL)


class WordReader:
    """Reads the answers of a conversation with a word game.

    Each action is checked in the state in which it would run; reading stops at the first illegal one. What
    follows an action that ends the game is kept as it is, because it does not run.

    Args:
        game: The game, which is left as it is.
    """

    def __init__(self, game: WordGameEnv) -> None:
        self._game = game

    def read(
        self, answer: str, actions_per_turn: int, defects: set[Defect], soft: set[SoftDefect]
    ) -> tuple[tuple[str, ...], str]:
        """Return the actions of an answer, at most as many as a turn may have, and why one is illegal.

        Arguments as of ``ragen_envs.conversation.vocabulary.read_actions``.
        """
        parts = _parts(self._game, answer, soft)
        if not any(parts):
            defects.add(Defect.EMPTY_ANSWER)
            return (), ""
        if not all(parts):
            defects.add(Defect.EMPTY_ACTION)
        game, ended = self._game, False
        actions: list[str] = []
        for part in filter(None, parts):
            if len(actions) == actions_per_turn:
                defects.add(Defect.TOO_MANY_ACTIONS)
                break
            action, reason = (part, "") if ended else _legal_form(game, part, soft)
            if reason:
                defects.add(Defect.ILLEGAL_ACTION)
                return tuple(actions), reason
            actions.append(action)
            if len(actions) < len(parts) and not ended and not game.has_fixed_legality:
                game = copy.deepcopy(game) if game is self._game else game
                ended = game.act(action)[1]
        return tuple(actions), ""


def _parts(game: WordGameEnv, answer: str, soft: set[SoftDefect]) -> list[str]:
    """Return the texts of the actions, without a code fence around them that is no action itself."""
    parts, separators = _split(answer)
    fence = _FENCE.fullmatch(answer.strip())
    if fence is not None and not _begins_legally(game, parts):
        inside, within = _split(fence.group(1))
        if _begins_legally(game, inside):
            parts, separators = inside, within | {SoftDefect.MARKDOWN}
    soft |= separators
    return parts


def _split(answer: str) -> tuple[list[str], set[SoftDefect]]:
    """Return the texts between the separators, and the soft defect of these, if any."""
    parts = answer.split("||")
    if len(parts) == 1 and len(answer.split("\n")) > 1:
        lines = [line.strip() for line in answer.split("\n") if line.strip()]
        return lines, {SoftDefect.LINE_BREAKS} if len(lines) > 1 else set()
    return [part.strip() for part in parts], set()


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
    """Yield what may be the action, and how the text departs from it: the least first."""
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
