"""What a game does wrong, as one error that names its class and method."""

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any, NoReturn, cast

from ragen_envs.game.errors import GameError, RagenError, first_line

GUIDE = "docs/add-a-game.md"


def incomplete(game: object, what: str) -> GameError:
    """Return the error of a game that lacks something."""
    return GameError(f"{type(game).__name__} is incomplete: its {what}; see {GUIDE}")


@contextmanager
def named_errors(game: object) -> Iterator[None]:
    """Turn what an unwrapped game raises into a `GameError` that names its method.

    Errors for users, missing packages and exhausted memory remain what they are.
    """
    try:
        yield
    except Exception as error:
        raise_named(game, error)


def raise_named(game: object, error: Exception) -> NoReturn:
    """Raise what an unwrapped game has raised as `named_errors` does, which costs nothing until then."""
    if isinstance(error, RagenError | ImportError | MemoryError):
        raise error
    raise GameError(
        f"{_method(game, error)} raised {type(error).__name__}: {first_line(error)}; see {GUIDE}"
    ) from error


def _method(game: object, error: Exception) -> str:
    """Return the innermost method of the game or its text face that an error has passed, or the class."""
    # Of their classes, because games are also played as copies.
    classes = {type(game), type(getattr(game, "text", None))} - {type(None)}
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        owner = frame.f_locals.get("self")
        if type(owner) in classes:
            return f"{type(owner).__name__}.{frame.f_code.co_name}"
    return type(game).__name__


def check_face(game: object, face: object) -> None:
    """Raise `GameError` if a game's text face lacks a part."""
    for name in ("vocabularies", "rules", "legend", "actions", "observation"):
        if not hasattr(face, name):
            raise incomplete(game, f"text face, {type(face).__name__}, has no '{name}'")


def checked_text(game: object, method: str, text: object) -> str:
    """Return what a method of a game's text face has returned.

    Raises:
        GameError: It is no string, or one that UTF-8 cannot encode.
    """
    if not isinstance(text, str):
        raise incomplete(game, f"text.{method} returned {text!r:.80}, but must return a str")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise incomplete(
                game, f"text.{method} returned {text!r:.80}, which UTF-8 cannot encode"
            ) from None
    return text


def checked_names(game: object, names: Any, count: int | None = None) -> tuple[str, ...]:
    """Return the names of a game's actions, of which there must be ``count`` if that is given.

    Raises:
        GameError: They cannot be told apart in a reply, or there are more or fewer.
    """
    if not isinstance(names, tuple) or not names or not all(map(_is_readable, names)):
        raise incomplete(
            game,
            f"text.actions returned {names!r:.80}, but must return a tuple of names without '||' and "
            "without spaces around them",
        )
    if len({name.casefold() for name in names}) < len(names):
        raise incomplete(
            game,
            f"text.actions returned {names!r:.80}, but the names must differ by more than upper and lower "
            "case, which replies need not keep",
        )
    if count is not None and len(names) != count:
        raise incomplete(
            game, f"text.actions returned {len(names)} names, but action_space has {count} actions"
        )
    return cast("tuple[str, ...]", names)


def _is_readable(name: object) -> bool:
    return isinstance(name, str) and "||" not in name and name == name.strip() != ""
