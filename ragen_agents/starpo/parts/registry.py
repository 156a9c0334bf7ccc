"""Named parts that a config chooses among, built in or registered by a user."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from ragen_envs.errors import RagenError


class Named(Protocol):
    """A part with a name."""

    @property
    def name(self) -> str:
        """What configs call it."""

    @property
    def summary(self) -> str:
        """One line for lists."""


PartT = TypeVar("PartT", bound=Named)


class Registry(Generic[PartT]):
    """Parts of one kind by name, in the order of their registration.

    Args:
        field: The config field that chooses among them, for error messages.
    """

    def __init__(self, field: str) -> None:
        self.field = field
        self._parts: dict[str, PartT] = {}

    def register(self, part: PartT) -> PartT:
        """Add a part and return it.

        Raises:
            RagenError: Its name is empty or taken.
        """
        if not part.name:
            raise RagenError(f"a part for {self.field} must have a name")
        if part.name in self._parts:
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
            known = ", ".join(f"'{each}'" for each in self._parts)
            raise ValueError(f"unknown {self.field} '{name}'; registered are {known}")
        return name
