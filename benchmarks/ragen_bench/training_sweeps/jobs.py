"""Run the tasks of a sweep in processes, several at a time, and show the progress."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ragen_agents.run_files.files import write_atomically, writing
from ragen_bench.console.formats import duration
from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.progress import TerminalBar
from ragen_bench.evaluation.ray_cluster import RayJob
from ragen_bench.training_sweeps import TASK
from ragen_bench.training_sweeps.results import RESULT
from ragen_bench.training_sweeps.state import TaskState, iterations_done
from ragen_bench.training_sweeps.task_process import BUSY, LOG, LocalProcess
from ragen_bench.training_sweeps.tasks import SweepTask

_TRIES: Final = 2
_PAUSE: Final = 0.2

Job = LocalProcess | RayJob
"""The process of a task."""


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        self._bar.update(self._row, completed=self._finished + under_way, description=self._text(tasks))

    def done(self, task: SweepTask, seconds: float) -> None:
        """Report a finished task."""
        self._done += 1
        self._finished += _size(task)
        self._say(f"{self._done}/{self._tasks} {task.path}: done in {duration(seconds)}")

    def failed(self, task: SweepTask, reason: str, again: bool) -> None:
        """Report why a task is not done."""
        self._say(f"{task.path}: {reason}{'; it will be retried at the end' if again else ''}")

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _text(self, tasks: Sequence[SweepTask]) -> str:
        names = ", ".join(f"{task.game} {task.cell} {task.path.name}" for task in tasks)
        return f"{self._done} of {self._tasks} models done  {names}"


def _size(task: SweepTask) -> int:
    """Return the length of a task on the bar: its iterations, and one for its tests."""
    return task.iterations + 1


@dataclass
class _Running:
    task: SweepTask
    job: Job
    started: float


@dataclass
class Pool:
    """Runs tasks, a fixed number at a time, and retries those that fail."""

    root: Path
    workers: int
    start: Callable[[Path], Job]
    view: SweepView
    _running: list[_Running] = field(default_factory=list)

    def run(self, tasks: Sequence[SweepTask]) -> list[SweepTask]:
        """Run all tasks and return those that are not done: failed, or running in another process.

        A task that fails is retried once, at the end.
        """
        waiting = list(tasks)
        tries: dict[Path, int] = {}
        left: list[SweepTask] = []
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.workers:
                    self._start(waiting.pop(0))
                for running in list(self._running):
                    task, code = running.task, running.job.poll()
                    if code is None:
                        continue
                    self._running.remove(running)
                    if code == 0 and (self.root / task.path / RESULT).exists():
                        self.view.done(task, time.monotonic() - running.started)
                        continue
                    tries[task.path] = tries.get(task.path, 0) + 1
                    again = code != BUSY and tries[task.path] < _TRIES
                    (waiting if again else left).append(task)
                    self.view.failed(task, self._reason(task, code, running.job.why), again)
                self.view.running([running.task for running in self._running])
                time.sleep(_PAUSE)
        finally:
            self._stop()
        return left

    def _start(self, task: SweepTask) -> None:
        folder = self.root / task.path
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / TASK).exists():
                write_atomically(folder / TASK, task.model_dump_json(indent=1) + "\n")
            job = self.start(folder.absolute())
        self._running.append(_Running(task, job, time.monotonic()))

    def _reason(self, task: SweepTask, code: int, why: str) -> str:
        if code == BUSY:
            return "another process is running it"
        if why:
            return why
        if code < 0:
            return f"ended by signal {-code}"
        log = self.root / task.path / LOG
        lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        return last_line or f"exit code {code}"

    def _stop(self) -> None:
        # The last first: what still waits for its turn must not get it.
        for running in reversed(self._running):
            running.job.cancel()
        for running in self._running:
            running.job.wait()
        self._running.clear()
