"""Show progress: bars on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Self, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    track,
)
from rich.text import Text

from ragen_agents.run_files.files import ResourceContext
from ragen_bench.console.log_handler import logs_on, stderr_console

Track: TypeAlias = Callable[[Sequence[Any]], Iterable[Any]]
"""Iterates over a sequence and may show how far it is; `iter` shows nothing."""


def bar(what: str) -> Track:
    """Return a `Track` with a bar on standard error, if that is a terminal."""
    console = Console(stderr=True)
    return partial(track, description=what, console=console, transient=True, disable=not console.is_terminal)


class TerminalBar(ResourceContext):
    """Shows its bar and log records above it while it is entered; the bar only on a terminal."""

    _console: Console
    _bar: Progress

    def _open(self, resources: ExitStack) -> None:
        resources.enter_context(logs_on(self._console))
        if self._console.is_terminal:
            self._bar.start()
            resources.callback(self._bar.stop)


_NUMBERS_WIDTH: Final = 44
"""Width of the bar, the count, the rate and the remaining time, beside a name."""


class RateColumn(ProgressColumn):
    """Episodes in a second."""

    def render(self, task: Task) -> Text:
        """Return the rate of the last minute."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="progress.data.speed")


class RunProgress(TerminalBar):
    """Reports a run on standard error; a context manager."""

    def __init__(self) -> None:
        self._console = stderr_console()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            RateColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            speed_estimate_period=60,
        )
        self._row = self._bar.add_task("", total=None)

    def of(self, done: int, total: int) -> Self:
        """Return itself, with the number of episodes in all and of those played already."""
        self._bar.update(self._row, total=total, completed=done)
        return self

    def start(self, agent: str, task: str, done: int, total: int, unit: str = "episodes") -> None:
        """Begin a task."""
        self._name, self._unit = f"{task} · {agent}", unit
        self._total, self._played, self._left = total, 0, total - done
        self._started = time.perf_counter()
        width = self._console.width - _NUMBERS_WIDTH
        short = f"{task} · {agent.rpartition('/')[2]}" if len(self._name) > width else self._name
        if len(short) > width:
            short = f"{short[: width - 1]}…"
        self._bar.update(self._row, description=short)

    def advance(self, episodes: int) -> None:
        """Count episodes."""
        self._played += episodes
        self._bar.advance(self._row, episodes)

    def finish(self) -> None:
        """End the task; say so where no bar can be seen."""
        if self._console.is_terminal or not self._left:
            return
        seconds = time.perf_counter() - self._started
        rate = self._played / seconds if seconds > 0 else 0.0
        print(
            f"{self._name}: {self._total} {self._unit}, {self._played} new in {seconds:.1f} s "
            f"({rate:.1f}/s)",
            file=self._console.file, flush=True,
        )  # fmt: skip
