"""Processes of tasks on this machine: start, poll, cancel."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final, Protocol

from ragen_bench.config.task_environment import task_environment

LOG: Final = "log.txt"


class Job(Protocol):
    """The process of a task."""

    why: str
    """Reason for a failure, if its log does not say so; otherwise ""."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def cancel(self) -> None:
        """Terminate it if it is running, without waiting."""

    def wait(self) -> None:
        """Wait until it has ended."""


class Launcher(Protocol):
    """Starts the processes of tasks."""

    slots: int
    """Number of tasks that fit at the same time."""

    def start(self, folder: Path) -> Job:
        """Start or queue the task of a folder; raises `OSError` if that fails."""


class LocalProcess:
    """A process on this machine. It exits when its standard input is closed, so with its parent process."""

    why = ""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        with (folder / LOG).open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ragen_bench.training_sweeps.work", str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        code = self.process.poll()
        if code is not None:
            self._stdin.close()
        return code

    def cancel(self) -> None:
        """Terminate it."""
        self._stdin.close()

    def wait(self) -> None:
        """Wait until it has ended."""
        self.process.wait()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


def run_process(folder: Path, environment: dict[str, str]) -> int:
    """Run the task of a folder in a process of its own and return its exit code."""
    return LocalProcess(folder, environment).process.wait()


class Local:
    """Runs tasks in processes on this machine."""

    def __init__(self, slots: int, threads: int, hides_gpus: bool = False) -> None:
        self.slots = slots
        self._environment = task_environment(threads, hides_gpus)

    def start(self, folder: Path) -> Job:
        """Start the task of a folder."""
        return LocalProcess(folder, self._environment)


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
