"""Named parts that a config chooses among, built in or registered by a user."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import yaml

from ragen_agents.signatures import takes
from ragen_envs.game.errors import RagenError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PROJECT: Final = ("ragen_agents", "ragen_envs")


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
        kind: The class of the parts.
        arguments: Number of arguments of their functions.
    """

    def __init__(self, field: str, kind: type[PartT], arguments: int = 1) -> None:
        self.field = field
        self._kind, self._arguments = kind, arguments
        self._parts: dict[str, PartT] = {}

    def register(self, part: PartT) -> PartT:
        """Add a part and return it. Registering the same function again replaces it.

        Raises:
            RagenError: The part is of another kind, or another part has its name.
        """
        self._check_part(part)
        known = self._parts.get(part.name)
        if known is not None and _identity(known.function) != _identity(part.function):
            raise RagenError(f"{self.field}={part.name} is registered already; choose another name")
        self._parts[part.name] = part
        return part

    def _check_part(self, part: Any) -> None:
        if not isinstance(part, self._kind):
            raise RagenError(
                f"a part for {self.field} must be of the class {self._kind.__name__}, but is {part!r:.80}"
            )
        if not isinstance(part.name, str) or not _NAME.fullmatch(part.name):
            raise RagenError(
                f"a part for {self.field} has the name {part.name!r:.80}, but a name is 1 to 64 letters, "
                "digits, '-', '_' and '.', and begins with a letter or a digit"
            )
        read = yaml.safe_load(part.name)
        if read != part.name:
            raise RagenError(
                f"a part for {self.field} has the name {part.name!r}, which YAML reads as {read!r}; choose a "
                "name that it reads as text"
            )
        where = f"{self.field}={part.name} has"
        if not callable(part.function) or not takes(part.function, self._arguments):
            count = "one argument" if self._arguments == 1 else f"{self._arguments} arguments"
            raise RagenError(
                f"{where} the function {part.function!r:.80}, but must have a function of {count}"
            )
        params = getattr(part, "params", {})
        if not isinstance(params, Mapping) or not all(
            isinstance(name, str) and isinstance(value, int | float)
            for name, value in params.items()
        ):
            raise RagenError(
                f"{where} the params {params!r:.80}, but they must map names to finite numbers"
            )

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


def is_projects(part: Any) -> bool:
    """Return whether a part is defined in the project, and not by a user."""
    module = getattr(part, "__module__", None) or type(part).__module__
    return module.partition(".")[0] in _PROJECT


def _identity(function: Callable[..., Any]) -> Any:
    """Return what a function has in common with itself when it is defined again, as in a notebook."""
    if not inspect.isfunction(function):
        return repr(function)
    name = function.__module__, function.__qualname__
    if "<" not in function.__qualname__:
        return name
    # Lambdas and functions within functions share their names with others.
    return name, function.__code__, repr(inspect.getclosurevars(function).nonlocals)
