"""Files and folders that are written whole or not at all, by one process at a time."""

import fcntl
import hashlib
import logging
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.locks")
_WRITING: Final = ".writing"
"""End of the name of a folder that is not complete yet."""


def read_text(path: Path) -> str:
    """Return the text of a user's file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RagenError(f"there is no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RagenError(f"'{path}' cannot be read: {error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise an `OSError` of a block that writes a file or a folder as a `RagenError` that names it."""
    try:
        yield
    except OSError as error:
        raise RagenError(f"'{path}' cannot be written: {error.strerror or error}") from error


class InUseError(RagenError):
    """Another process holds the lock of a directory."""


@contextmanager
def exclusive_lock(path: Path, wait: bool = False, what: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file for appending and hold its lock, for which it may wait, until the end of the block.

    The operating system releases the lock when the process ends, however it ends. ``what`` is the folder
    that it protects; that of the file by default.

    Raises:
        InUseError: Another process holds the lock.
        OSError: The file cannot be opened.
    """
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise InUseError(f"'{what or path.parent}' is in use by another command") from None
            _LOG.info("waiting for another command that uses '%s'", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


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
    """Yield an empty folder that takes the place of another one, if any, when it is complete and on the disk.

    What a killed process leaves beside it is put back or removed by the next one, or by `remove_unfinished`.

    Raises:
        InUseError: Another process is writing the same folder.
        OSError: It cannot be written.
    """
    place = folder.absolute()
    work = place.with_name(f".{place.name}{_WRITING}")
    new, old = work / "new", work / "old"
    with ExitStack() as resources:
        work.mkdir(parents=True, exist_ok=True)
        resources.enter_context(exclusive_lock(work / ".lock", what=folder))
        resources.callback(shutil.rmtree, work, ignore_errors=True)
        _put_back(work)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        new.mkdir()
        yield new
        for path in (*new.rglob("*"), new):
            _flush(path)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
        _flush(folder.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes have left of new folders in a folder that no other process writes to."""
    for path in folder.glob(f".*{_WRITING}"):
        _put_back(path)
        shutil.rmtree(path, ignore_errors=True)


def _put_back(work: Path) -> None:
    """Put back the folder that a process had moved away when it was killed."""
    old, place = work / "old", work.with_name(work.name[1 : -len(_WRITING)])
    if old.exists() and not place.exists():
        old.rename(place)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ResourceContext(ABC):
    """A context manager whose resources an ``ExitStack`` releases, also when opening one of them fails."""

    def __enter__(self) -> Self:
        with ExitStack() as resources:
            self._open(resources)
            self._resources = resources.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    @abstractmethod
    def _open(self, resources: ExitStack) -> None:
        """Open what is needed and register how it is released."""


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
