"""One way to write context managers that hold several resources."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class ResourceContext(ABC):
    """A context manager whose resources an ``ExitStack`` releases, also when opening one of them fails."""

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            self._open(resources)
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()

    @abstractmethod
    def _open(self, resources: ExitStack) -> None:
        """Open what is needed and register how it is released."""
