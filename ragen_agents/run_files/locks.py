"""Locks of directories: one process at a time writes to a run."""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from ragen_envs.game.errors import RagenError

_LOG: Final = logging.getLogger("ragen.locks")


class InUseError(RagenError):
    """Another process holds the lock of a directory."""


@contextmanager
def exclusive_lock(path: Path, wait: bool = False) -> Iterator[BinaryIO]:
    """Open a file for appending and hold its lock until the end of the block.

    The operating system releases the lock when the process ends, however it ends.

    Args:
        path: The file.
        wait: Whether to wait while another process holds the lock.

    Raises:
        InUseError: Another process holds the lock.
        OSError: The file cannot be opened.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise InUseError(f"'{path.parent}' is in use by another command") from None
            _LOG.info("waiting for another command that uses '%s'", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
