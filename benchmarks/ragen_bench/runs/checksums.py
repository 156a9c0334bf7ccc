"""Write and check ``episodes.sha256``: a hash of each line, written after it.

Replaying an episode checks all that the game decides. It cannot tell a reply from another one with
the same actions, nor a token count or a time from another; these hashes can.
"""

import logging
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ragen_agents.run_files.files import write_atomically
from ragen_bench.config.run_config import EditedFileError
from ragen_bench.runs.records import EpisodeT, Record
from ragen_envs.errors import RagenError

CHECKSUMS: Final = "episodes.sha256"
MAX_APPEND: Final = 32
"""Most lines that are written before their hashes, so that an interruption leaves no more without one."""
_WIDTH: Final = 65
_LOG: Final = logging.getLogger("ragen.runs")


class Checksums:
    """The file of a run that is being played."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CHECKSUMS
        self._known: set[str] = set()
        """The hashes of the last repair, so that lines that were moved since then count as protected."""

    def append(self, lines: Sequence[bytes]) -> None:
        """Add the hashes of lines that are on the disk already."""
        checksums = [sha256(line[:-1]).hexdigest() for line in lines]
        with self._path.open("ab") as file:
            file.write(_encode(checksums))
            file.flush()
            os.fsync(file.fileno())

    def check(self, records: Sequence[Record[EpisodeT]]) -> list[str]:
        """Compare the file with the episodes that survived an interruption, and return its hashes.

        Raises:
            EditedFileError: As of `check_lines`.
        """
        written = read_checksums(self._path.parent) or []
        check_lines(self._path.parent, records, written)
        return written

    def repair(self, records: Sequence[Record[EpisodeT]]) -> None:
        """Bring the file in step with the episodes that survived an interruption.

        Episodes without a hash get one, and a warning: they were not protected before.

        Raises:
            EditedFileError: As of `check_lines`.
        """
        written = self.check(records)
        bare = [record for record in records[len(written) :] if record.sha256 not in self._known]
        if bare:
            _LOG.warning(
                "%s lacked the checksums of %d of %d episodes; earlier changes to them cannot be detected",
                self._path,
                len(bare),
                len(records),
            )
        checksums = [record.sha256 for record in records]
        write_atomically(self._path, _encode(checksums))
        self._known = set(checksums)


def check_lines(folder: Path, records: Sequence[Record[EpisodeT]], written: Sequence[str]) -> None:
    """Compare the episodes of a run with hashes that were read before them.

    Raises:
        EditedFileError: An episode differs from its hash or is missing, so it was changed or removed later.
    """
    path = (folder / CHECKSUMS).with_suffix(".jsonl")
    for record, checksum in zip(records, written, strict=False):
        if record.sha256 != checksum:
            raise EditedFileError(f"{path} line {record.line} was changed after it was written")
    # Lines are on the disk before their hashes, so no interruption leaves a hash without its line.
    if len(written) > len(records):
        raise EditedFileError(
            f"{path} line {len(records) + 1} was changed or removed after it was written: {CHECKSUMS} has "
            f"{len(written)} episodes, but {len(records)} can be read"
        )


def _encode(checksums: Sequence[str]) -> bytes:
    return "".join(f"{checksum}\n" for checksum in checksums).encode()


def read_checksums(folder: Path) -> list[str] | None:
    """Return the complete hashes of a run's lines in order, or None if it has no such file."""
    try:
        data = (folder / CHECKSUMS).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RagenError(f"'{folder / CHECKSUMS}' cannot be read: {error.strerror}") from error
    count = len(data) // _WIDTH
    lines = [data[i * _WIDTH : (i + 1) * _WIDTH] for i in range(count)]
    return [line[:-1].decode("ascii", "replace") for line in lines]
