"""Names of games on the command line: ids, or short names such as sokoban that stand for one."""

from collections.abc import Sequence
from typing import Final

from ragen_envs.errors import RagenError
from ragen_envs.registration import plain_id, text_ids

FOR_SEVERAL: Final = (
    "; ragen match plays games for several players, and one of your own must be imported before the command: "
    "ragen --import FILE"
)
"""End of the error about an unknown game."""


def text_id_of(name: str) -> str:
    """Return the id of the conversation env that a name stands for, or of another environment.

    See ``find_game`` for names.
    """
    known = text_ids()
    text_id = find_game(name, known) or plain_id(name)
    if text_id is None:
        raise RagenError(f"unknown game '{name}'; known are {', '.join(short_names(known))}{FOR_SEVERAL}")
    return text_id


def find_game(name: str, known: Sequence[str]) -> str | None:
    """Return the text id that a name stands for, or None.

    A game is known by its text id, by its numeric id, and by its name with or without its namespace.
    Case and punctuation do not matter. A name that several games share is that of the first one.
    """
    if name in known:
        return name
    wanted = squeezed(name)
    return next((each for each in known if wanted in map(squeezed, _names(each))), None)


def short_names(known: Sequence[str]) -> dict[str, str]:
    """Return the shortest name by which ``find_game`` knows each text id, and the id."""
    return {next(name for name in _names(each) if find_game(name, known) == each): each for each in known}


def squeezed(name: str) -> str:
    """Return a name in lower case without punctuation."""
    return "".join(c for c in name.lower() if c.isalnum())


def _names(text_id: str) -> tuple[str, ...]:
    """Return all names of a game, the shortest one first."""
    name = text_id.removesuffix("-v0").removesuffix("Text").removesuffix("_text")
    return name.rpartition("/")[2], name, f"{name}-v0", text_id
