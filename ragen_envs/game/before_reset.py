"""What is said where a game is asked for something that only an episode has."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ragen_envs.game.errors import InstanceError, NeverResetError

_Method = TypeVar("_Method", bound=Callable[..., Any])


def after_reset(method: _Method) -> _Method:
    """Make a game's method raise `NeverResetError` where it fails because there was no reset.

    Levels may also be loaded without a reset, as vector envs and packs do, so success is never questioned.
    """

    @wraps(method)
    def checked(game: Any, *args: Any, **keywords: Any) -> Any:
        try:
            return method(game, *args, **keywords)
        except (AttributeError, InstanceError) as error:
            if game._stream is not None:
                raise
            raise NeverResetError(f"call reset() before using {method.__name__}") from error

    return checked  # type: ignore[return-value]


def check_methods(game_class: type, *names: str) -> None:
    """Apply `after_reset` to those methods with the names that the class itself defines."""
    for name in names:
        if name in vars(game_class):
            setattr(game_class, name, after_reset(vars(game_class)[name]))
