"""Name the class and method of a game that fails, for whoever wrote the game."""

from traceback import walk_tb
from typing import Any, cast

from ragen_envs.conversation.settings import count_names
from ragen_envs.errors import GameError, RagenError, first_line

GUIDE = "docs/add-a-game.md"


def incomplete(game: object, what: str) -> GameError:
    """Return the error of a game that lacks something."""
    return GameError(f"{type(game).__name__} is incomplete: its {what}; see {GUIDE}")


class named_errors:  # noqa: N801 - a context manager
    """Turn what an unwrapped game raises into a `GameError` that names its method.

    Errors for users, missing packages and exhausted memory remain what they are. A context manager made from
    a generator would take longer than some turns.
    """

    def __init__(self, game: object) -> None:
        self._game = game

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, RagenError | ImportError | MemoryError):
            return
        raise GameError(
            f"{_method(self._game, error)} raised {type(error).__name__}: {first_line(error)}; see {GUIDE}"
        ) from error


def _method(game: object, error: Exception) -> str:
    """Return the innermost method of the game or its text face that an error has passed, or the class."""
    # Of their classes, because games are also played as copies.
    inner = getattr(getattr(game, "env", None), "unwrapped", None)
    classes = {type(game), type(getattr(game, "text", None)), type(inner)} - {type(None)}
    for frame, _ in reversed(list(walk_tb(error.__traceback__))):
        owner = frame.f_locals.get("self")
        if type(owner) in classes and frame.f_code.co_name != "__getattr__":
            return f"{type(owner).__name__}.{frame.f_code.co_name}"
    return type(game).__name__


def checked_names(game: object, names: Any, count: int | None) -> tuple[str, ...]:
    """Return the names of a game's actions, of which there must be ``count`` unless it is None.

    Raises:
        GameError: They cannot be told apart in a reply, or there are more or fewer.
    """
    distinct = count_names(names) if isinstance(names, tuple) else 0
    if not 0 < distinct == len(names) == (count or distinct):
        raise incomplete(
            game,
            f"text.actions returned {names!r:.80}, but must return a tuple with a name for each "
            f"{'form of action' if count is None else f'of the {count} actions'}, without '||', without "
            "spaces around it, and different from the others by more than upper and lower case",
        )
    return cast("tuple[str, ...]", names)
