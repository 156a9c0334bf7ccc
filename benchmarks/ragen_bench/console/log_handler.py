"""Print records of the ``ragen`` loggers on standard error, above a live display where there is one."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.text import Text

from ragen_bench.console.escaping import escape_unprintable

ROOT: Final = "ragen"
"""Logger above all others of the suite, such as ``ragen.registration``."""
_FREQUENT: Final = "ragen.endpoint"
"""Logger whose records can come many times a second, from requests that are sent again."""
_PLAIN: Final = "ragen.compiling"
"""Logger whose records are warnings only so that scripts show them."""
_INTERVAL: Final = 10.0
"""Seconds between two lines of the frequent logger."""


def stderr_console(quiet: bool = False) -> Console:
    """Return a console on standard error that prints text as it is."""
    return Console(stderr=True, quiet=quiet, markup=False, emoji=False, highlight=False)


class _RateLimit(logging.Filter):
    """Lets one record of the frequent logger through in each interval."""

    _next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != _FREQUENT:
            return True
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _INTERVAL
        return True


class ConsoleHandler(logging.Handler):
    """Prints each record as a line: information as it is, the rest after its level, such as "warning:".

    Texts of servers are in some, so that what a terminal would act on is shown as code points.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.console = stderr_console()
        self.addFilter(_RateLimit())

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        try:
            text, style = escape_unprintable(self.format(record), kept="\n"), ""
            if record.levelno >= logging.WARNING and record.name != _PLAIN:
                text, style = f"{record.levelname.lower()}: {text}", "yellow"
            self.console.print(Text(text, style), soft_wrap=True)
        except Exception:
            self.handleError(record)


@contextmanager
def logs_on_stderr() -> Iterator[None]:
    """Show the records of all ``ragen`` loggers, from INFO up, until the end of the block."""
    logger, handler = logging.getLogger(ROOT), ConsoleHandler()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # handlers that other libraries install would repeat the lines
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextmanager
def logs_on(console: Console) -> Iterator[None]:
    """Print records on another console until the end of the block, so that its live display stays whole."""
    handlers = [h for h in logging.getLogger(ROOT).handlers if isinstance(h, ConsoleHandler)]
    before = [handler.console for handler in handlers]
    for handler in handlers:
        handler.console = console
    try:
        yield
    finally:
        for handler, old in zip(handlers, before, strict=True):
            handler.console = old
