"""The display of a sweep: a bar of all iterations on a terminal, otherwise a line per task."""

from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ragen_bench.console.formats import duration
from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.progress import TerminalBar
from ragen_bench.training_sweeps.state import TaskState, iterations_done
from ragen_bench.training_sweeps.tasks import SweepTask


class SweepView(TerminalBar):
    """Reports a sweep on standard error; a context manager."""

    def __init__(self, root: Path, states: Sequence[TaskState]) -> None:
        self._root = root
        self._console = stderr_console()
        self._done = sum(state.status == "done" for state in states)
        self._tasks = len(states)
        self._finished = sum(_size(s.task) for s in states if s.status == "done")
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            speed_estimate_period=600,
        )
        total = sum(_size(state.task) for state in states)
        self._row = self._bar.add_task(self._text(()), total=total, completed=self._finished)

    def running(self, tasks: Sequence[SweepTask]) -> None:
        """Move the bar to where the running tasks are."""
        if not self._console.is_terminal:
            return
        under_way = sum(iterations_done(self._root / task.path) for task in tasks)
        self._bar.update(
            self._row, completed=self._finished + under_way, description=self._text(tasks)
        )

    def done(self, task: SweepTask, seconds: float) -> None:
        """Say that a task is done."""
        self._done += 1
        self._finished += _size(task)
        self._say(f"{self._done}/{self._tasks} {task.path}: done in {duration(seconds)}")

    def failed(self, task: SweepTask, reason: str, again: bool) -> None:
        """Say why a task is not done."""
        self._say(f"{task.path}: {reason}{'; it will be retried at the end' if again else ''}")

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _text(self, tasks: Sequence[SweepTask]) -> str:
        names = ", ".join(f"{task.game} {task.cell} {task.path.name}" for task in tasks)
        return f"{self._done} of {self._tasks} models done  {names}"


def _size(task: SweepTask) -> int:
    """Return how long a task is on the bar: its iterations, and one for its tests."""
    return task.iterations + 1
