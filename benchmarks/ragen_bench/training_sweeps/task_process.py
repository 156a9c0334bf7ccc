"""The process of a task. A worker of Ray, which only starts it and waits, need not import what trains."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final, cast

LOG: Final = "log.txt"
BUSY: Final = 75
"""Exit code if another process is running the task."""


class LocalProcess:
    """A process on this machine. It exits when its standard input is closed, so with its parent process."""

    why = ""
    """Reason for a failure, if its log does not say so."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        with (folder / LOG).open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ragen_bench.training_sweeps.work", str(folder)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip
        self._stdin = cast("IO[bytes]", self.process.stdin)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        code = self.process.poll()
        if code is not None:
            self._stdin.close()
        return code

    def cancel(self) -> None:
        """Terminate it if it is running, without waiting."""
        self._stdin.close()

    def wait(self) -> None:
        """Wait until it has ended."""
        self.process.wait()


def run_process(folder: Path, environment: dict[str, str]) -> int:
    """Run the task of a folder in a process of its own and return its exit code."""
    return LocalProcess(folder, environment).process.wait()
