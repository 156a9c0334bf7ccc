"""Run the tasks of a sweep, several at a time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from ragen_agents.run_files.files import write_atomically, writing
from ragen_bench.training_sweeps.jobs import LOG, Job, Launcher
from ragen_bench.training_sweeps.results import RESULT, check_same, parse_task
from ragen_bench.training_sweeps.tasks import SweepTask
from ragen_bench.training_sweeps.work import BUSY, TASK

_TRIES: Final = 2
_PAUSE: Final = 0.2


class SweepObserver(Protocol):
    """Receives the progress of a sweep."""

    def running(self, tasks: Sequence[SweepTask]) -> None:
        """Update the running tasks; called several times a second."""

    def done(self, task: SweepTask, seconds: float) -> None:
        """Count a task."""

    def failed(self, task: SweepTask, reason: str, again: bool) -> None:
        """Report a failed task, and whether it is retried."""


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
    launcher: Launcher
    observer: SweepObserver
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
                for task, code, why, seconds in self._ended():
                    if code == 0 and (self.root / task.path / RESULT).exists():
                        self.observer.done(task, seconds)
                        continue
                    tries[task.path] = tries.get(task.path, 0) + 1
                    again = code != BUSY and tries[task.path] < _TRIES
                    (waiting if again else left).append(task)
                    self.observer.failed(task, self._reason(task, code, why), again)
                self.observer.running([running.task for running in self._running])
                time.sleep(_PAUSE)
        finally:
            self._stop()
        return left

    def _start(self, task: SweepTask) -> None:
        folder = self.root / task.path
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _write_task(folder, task)
            job = self.launcher.start(folder.absolute())
        self._running.append(_Running(task, job, time.monotonic()))

    def _ended(self) -> list[tuple[SweepTask, int, str, float]]:
        found = []
        for running in list(self._running):
            code = running.job.poll()
            if code is not None:
                self._running.remove(running)
                seconds = time.monotonic() - running.started
                found.append((running.task, code, running.job.why, seconds))
        return found

    def _reason(self, task: SweepTask, code: int, why: str) -> str:
        if code == BUSY:
            return "another process is running it"
        if why:
            return why
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


def _write_task(folder: Path, task: SweepTask) -> None:
    """Write the task of a folder, or check that it is the same."""
    path = folder / TASK
    if path.exists():
        check_same(folder, parse_task(path), task)
        return
    write_atomically(path, task.model_dump_json(indent=1) + "\n")
