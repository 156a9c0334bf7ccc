"""A bar on standard error that is drawn on a terminal only."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress


class TerminalBar:
    """Shows its bar while it is entered, if standard error is a terminal; a context manager."""

    _console: Console
    _bar: Progress

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
