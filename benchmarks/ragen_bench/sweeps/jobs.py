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

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""

    def stop(self) -> None:
        """Let it end now, if it still runs, and return when it has."""


class Launcher(Protocol):
    """Where tasks are done."""

    def start(self, folder: Path) -> Job:
        """Begin the task of a folder, or let it wait for its turn; `OSError` if that is impossible."""


class Leashed:
    """A process of this machine. It ends when its standard input does, so with whoever holds this."""

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

    def stop(self) -> None:
        """End it, and wait until it has."""
        self._leash.close()
        self.process.wait()

    @property
    def _leash(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


class Local:
    """Does tasks in processes of this machine.

    Args:
        threads: How many threads each of them has, >= 1.
    """

    def __init__(self, threads: int) -> None:
        self._environment = task_environment(threads)

    def start(self, folder: Path) -> Job:
        """Begin the task of a folder."""
        return Leashed(folder, self._environment)


def task_environment(threads: int) -> dict[str, str]:
    """Return what differs in the environment of a task's process: caps of threads, absolute paths."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = os.pathsep.join(str(Path(path).resolve()) for path in paths if path)
    return {**dict.fromkeys(_THREADS, str(threads)), "PYTHONPATH": absolute}
