"""Read untrusted files: regular files of bounded size, also once unpacked, without duplicate keys."""

import json
import lzma
import os
import stat
from pathlib import Path
from typing import Any, Final

from ragen_bench.leaderboard.rules import EntryError

MAX_ENTRY: Final = 1 << 16
"""Most bytes of ``entry.json``."""
MAX_PACKED: Final = 1 << 23
"""Most bytes of the compressed episodes."""
MAX_UNPACKED: Final = 1 << 26
"""Most bytes of the episodes."""
MAX_LINE: Final = 1 << 21
"""Most bytes of one episode."""
_MAX_MEMORY: Final = 1 << 27
"""Most bytes that the decompressor may take."""


def read_file(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        EntryError: It is a link or something else, is too large, or cannot be read.
    """
    try:
        # Without blocking, so that a named pipe is seen for what it is.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise EntryError(f"{path.name} is not a regular file")
            data = _read(handle, limit + 1)
        finally:
            os.close(handle)
    except OSError as error:
        reason = "is a link" if path.is_symlink() else f"cannot be read: {error.strerror}"
        raise EntryError(f"{path.name} {reason}") from error
    if len(data) > limit:
        raise EntryError(f"{path.name} has more than {limit} bytes")
    return data


def _read(handle: int, most: int) -> bytes:
    with open(handle, "rb", closefd=False) as file:
        return file.read(most)


def unpack(data: bytes, what: str) -> bytes:
    """Return the contents of one xz stream.

    Raises:
        EntryError: It is none, is cut short, is followed by something, or unpacks to too much.
    """
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
    try:
        unpacked = decompressor.decompress(data, MAX_UNPACKED + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise EntryError(f"{what} is not an xz file: {error}") from error
    if len(unpacked) > MAX_UNPACKED:
        raise EntryError(f"{what} unpacks to more than {MAX_UNPACKED} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise EntryError(f"{what} must be one whole xz stream and nothing else")
    return unpacked


def parse_json(data: bytes, what: str) -> Any:
    """Return the data of a JSON text.

    Raises:
        EntryError: It is not JSON, has a key twice, nan or infinity, or is nested too deeply.
    """
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError as error:
        raise EntryError(f"{what} is nested too deeply") from error
    except ValueError as error:
        raise EntryError(f"{what} is not JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"the key {twice!r:.60} is a duplicate")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
