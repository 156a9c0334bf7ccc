"""How the process of a task is started, watched and ended: on this machine."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final, Protocol

LOG: Final = "log.txt"
_THREADS: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


class Job(Protocol):
    """A task that was started."""

    why: str
    """Why it failed, where its own log cannot say so; else ""."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def cancel(self) -> None:
        """Let it end now, if it still runs; do not wait for that."""

    def wait(self) -> None:
        """Return when it has ended."""


class Launcher(Protocol):
    """Where tasks are done."""

    slots: int
    """How many tasks find room at the same time."""

    def start(self, folder: Path) -> Job:
        """Begin the task of a folder, or let it wait for its turn; `OSError` if that is impossible."""


class Leashed:
    """A process of this machine. It ends when its standard input does, so with whoever holds this."""

    why = ""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        with (folder / LOG).open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ragen_bench.sweeps.work", str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        code = self.process.poll()
        if code is not None:
            self._leash.close()
        return code

    def cancel(self) -> None:
        """Let it end now."""
        self._leash.close()

    def wait(self) -> None:
        """Return when it has ended."""
        self.process.wait()

    @property
    def _leash(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


class Local:
    """Does tasks in processes of this machine.

    Args:
        slots: How many find room at the same time, >= 1.
        threads: How many threads each of them has, >= 1.
    """

    def __init__(self, slots: int, threads: int) -> None:
        self.slots = slots
        self._environment = task_environment(threads)

    def start(self, folder: Path) -> Job:
        """Begin the task of a folder."""
        return Leashed(folder, self._environment)


def task_environment(threads: int) -> dict[str, str]:
    """Return what differs in the environment of a task's process: caps of threads, absolute paths."""
    changed = dict.fromkeys(_THREADS, str(threads))
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        changed["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return changed


def available_cpus() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
