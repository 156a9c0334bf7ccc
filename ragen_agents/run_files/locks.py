"""Locks of directories: one process at a time writes to a run."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ragen_envs.errors import RagenError


class InUseError(RagenError):
    """Another process holds the lock of a directory."""


@contextmanager
def exclusive_lock(path: Path) -> Iterator[BinaryIO]:
    """Open a file for appending and hold its lock until the end of the block.

    The operating system releases the lock when the process ends, however it ends.

    Raises:
        InUseError: Another process holds the lock.
        OSError: The file cannot be opened.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(f"'{path.parent}' is in use by another command") from None
        yield file
