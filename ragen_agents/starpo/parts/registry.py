"""Named parts that a config chooses among, built in or registered by a user."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from ragen_envs.errors import RagenError


class Part(Protocol):
    """A part with a name."""

    @property
    def name(self) -> str:
        """Its name in the config."""

    @property
    def function(self) -> Callable[..., Any]:
        """What it does."""


PartT = TypeVar("PartT", bound=Part)


class Registry(Generic[PartT]):
    """Parts of one kind by name, in the order of their registration.

    Args:
        field: The config field that chooses among them, for error messages.
    """

    def __init__(self, field: str) -> None:
        self.field = field
        self._parts: dict[str, PartT] = {}

    def register(self, part: PartT) -> PartT:
        """Add a part and return it. Registering the same function again replaces it.

        Raises:
            RagenError: Its name is empty, or is that of another part.
        """
        if not part.name:
            raise RagenError(f"a part for {self.field} must have a name")
        known = self._parts.get(part.name)
        if known is not None and _identity(known.function) != _identity(part.function):
            raise RagenError(f"{self.field}={part.name} is registered already; choose another name")
        self._parts[part.name] = part
        return part

    def __getitem__(self, name: str) -> PartT:
        return self._parts[self.check(name)]

    def __iter__(self) -> Iterator[PartT]:
        return iter(self._parts.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parts."""
        return tuple(self._parts)

    def check(self, name: str) -> str:
        """Return a name that is registered.

        Raises:
            ValueError: It is unknown; the message lists the known ones.
        """
        if name not in self._parts:
            raise ValueError(
                f"{self.field} is {name!r}, but must be one of {', '.join(self._parts)}; "
                "`ragen --import FILE` registers others"
            )
        return name


def _identity(function: Callable[..., Any]) -> Any:
    """Return what a function has in common with itself when it is defined again, as in a notebook."""
    if not inspect.isfunction(function):
        return repr(function)
    name = function.__module__, function.__qualname__
    if "<" not in function.__qualname__:
        return name
    # Lambdas and functions within functions share their names with others.
    return name, function.__code__, repr(inspect.getclosurevars(function).nonlocals)
