"""How far a run is: a bar with rate and time left on a terminal, else one line a task."""

import time
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)  # fmt: skip
from rich.text import Text

from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.terminal_bar import TerminalBar


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
            BarColumn(bar_width=12),
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

    def start(self, agent: str, task: str, done: int, total: int) -> None:
        """Begin a task."""
        self._name = f"{task} · {agent}"
        self._total, self._played, self._left = total, 0, total - done
        self._started = time.perf_counter()
        self._bar.update(self._row, description=self._name)

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
            f"{self._name}: {self._total} episodes, {self._played} new in {seconds:.1f} s "
            f"({rate:.1f}/s)",
            file=self._console.file, flush=True,
        )  # fmt: skip
