"""Replies to a game whose actions are words: texts between ``||``, each legal where it would run."""

import copy
import re
from typing import Final

from ragen_envs.conversation.characters import usual_characters
from ragen_envs.conversation.defects import Defect, SoftDefect
from ragen_envs.word_game import WordGameEnv

_WRAPPERS: Final = {
    SoftDefect.MARKDOWN: re.compile(r"(\*\*|\*|```|`)(.*)\1", re.DOTALL),
    SoftDefect.PUNCTUATION: re.compile(r"([\"'])(.*)\1", re.DOTALL),
}


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
        self, answer: str, actions_per_turn: int, found: set[Defect], soft: set[SoftDefect]
    ) -> tuple[tuple[str, ...], str]:
        """Return the actions of an answer, at most as many as a turn may have, and why one is illegal.

        Arguments as of ``ragen_envs.conversation.answer.read_actions``.
        """
        parts = _split(answer, soft)
        if not any(parts):
            found.add(Defect.EMPTY_ANSWER)
            return (), ""
        if not all(parts):
            found.add(Defect.EMPTY_ACTION)
        game, ended = self._game, False
        actions: list[str] = []
        for part in filter(None, parts):
            if len(actions) == actions_per_turn:
                found.add(Defect.TOO_MANY_ACTIONS)
                break
            action, reason = (part, "") if ended else _legal_form(game, part, soft)
            if reason:
                found.add(Defect.ILLEGAL_ACTION)
                return tuple(actions), reason
            actions.append(action)
            if len(actions) < len(parts) and not ended:
                game = copy.deepcopy(game) if game is self._game else game
                ended = game.act(action)[1]
        return tuple(actions), ""


def _split(answer: str, soft: set[SoftDefect]) -> list[str]:
    parts = answer.split("||")
    if len(parts) == 1 and len(answer.split("\n")) > 1:
        lines = [line.strip() for line in answer.split("\n") if line.strip()]
        if len(lines) > 1:
            soft.add(SoftDefect.LINE_BREAKS)
        return lines
    return [part.strip() for part in parts]


def _legal_form(game: WordGameEnv, part: str, soft: set[SoftDefect]) -> tuple[str, str]:
    """Return an action without what is wrapped around it, and why it is illegal, or ""."""
    first = game.legal(part)
    if first.is_legal:
        return part, ""
    bare, departures = part, set()
    usual = usual_characters(bare).strip()
    if usual != bare:
        bare, departures = usual, {SoftDefect.UNUSUAL_CHARACTERS}
    for kind, wrapper in _WRAPPERS.items():
        match = wrapper.fullmatch(bare)
        if match is not None:
            bare, departures = match.group(2).strip(), departures | {kind}
    if departures and bare and game.legal(bare).is_legal:
        soft |= departures
        return bare, ""
    return part, first.reason
