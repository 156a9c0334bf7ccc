"""The state of a game as a conversation shows it."""

from typing import Any, Final

from ragen_envs.game.text import GRID, IMAGE, Symbols, TextFace

_IN_PICTURE: Final = "The picture shows the current state of the game."


def state_text(face: TextFace, game: Any, form: str, symbols: Symbols) -> str:
    """Return the present state of an unwrapped game in the form of the setting ``observation``."""
    if form == IMAGE:
        if face.legend(symbols):
            return _IN_PICTURE
        form = GRID
    return face.observation(game, form, symbols)
