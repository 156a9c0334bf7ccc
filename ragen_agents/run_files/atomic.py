"""Files and folders that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ragen_agents.run_files.locks import exclusive_lock


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file that is there whole or not at all; text as UTF-8.

    Of several processes that write the same file at once, the last one's content stays.
    """
    temporary = path.with_suffix(".tmp")
    with opened_alone(temporary) as file:
        file.truncate(0)
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def opened_alone(path: Path) -> Iterator[BinaryIO]:
    """Open a file for appending, once no other process has it open in this way.

    This holds for files that are replaced while they are open, too.
    """
    while True:
        with exclusive_lock(path, wait=True) as file:
            if _is_at(path, file):
                yield file
                return


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Return whether an open file still has its name; its last writer may have renamed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of another one, if any, when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
