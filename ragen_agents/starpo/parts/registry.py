"""Named parts that a config chooses among, built in or registered by a user."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ragen_envs.errors import RagenError

_PROJECT = ("ragen_agents", "ragen_envs")


@dataclass(frozen=True)
class Part:
    """A function with a name: an estimator, a filter, a policy loss or an aggregation."""

    name: str
    """Name in the config, such as in ``filter.kind``."""
    function: Callable[..., Any]
    """The function."""
    summary: str
    """One line for the documentation, with the source."""
    published: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    """Settings that are part of the publication, such as ``{"advantage.turn_gamma": 0.95}``; the trainer
    warns where others are set."""
    params: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Settings of its own and their defaults, set by ``params`` of its section; aggregations have none."""


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
        """Add a part, so that settings can name it, and return it.

        It replaces an earlier one of a user's with the same name.

        Raises:
            RagenError: A part of the project has the name.
        """
        known = self._parts.get(part.name)
        if known is not None and is_builtin(known) and known.function != part.function:
            raise RagenError(f"{self.field}={part.name} is built in; choose another name")
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


def is_builtin(part: Part) -> bool:
    """Return whether a part is defined in the project, and not by a user."""
    return qualified_name(part.function).partition(".")[0] in _PROJECT


def qualified_name(part: Any) -> str:
    """Return ``module:name`` of a function, a class, or the class of an instance."""
    part = getattr(part, "func", part)  # of functools.partial
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}:{named.__qualname__}"
