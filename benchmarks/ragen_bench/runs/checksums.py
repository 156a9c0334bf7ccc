"""Write and check ``episodes.sha256``: a hash of each line, written after it.

Replaying an episode checks all that the game decides. It cannot tell a reply from another one with
the same actions, nor a token count or a time from another; these hashes can.
"""

import logging
import os
from collections.abc import Collection, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ragen_agents.run_files.files import write_atomically
from ragen_bench.config.run_config import EditedFileError
from ragen_bench.runs.records import EpisodeT, Record
from ragen_envs.errors import RagenError

CHECKSUMS: Final = "episodes.sha256"
_WIDTH: Final = 65
_LOG: Final = logging.getLogger("ragen.runs")


def append_checksums(folder: Path, lines: Sequence[bytes]) -> None:
    """Add the hashes of lines that are on the disk already."""
    with (folder / CHECKSUMS).open("ab") as file:
        file.write(_encode([sha256(line[:-1]).hexdigest() for line in lines]))
        file.flush()
        os.fsync(file.fileno())


def repair_checksums(folder: Path, records: Sequence[Record[EpisodeT]], known: Collection[str] = ()) -> None:
    """Bring the file in step with the episodes that survived an interruption.

    Episodes whose hash is neither in the file nor known get one, with a warning, for nothing protected them.

    Raises EditedFileError as `check_lines` does.
    """
    written = read_checksums(folder) or []
    check_lines(folder, records, written)
    if bare := sum(record.sha256 not in known for record in records[len(written) :]):
        _LOG.warning(
            "%s lacked the checksums of %d of %d episodes; earlier changes to them cannot be detected",
            folder / CHECKSUMS,
            bare,
            len(records),
        )
    write_atomically(folder / CHECKSUMS, _encode([record.sha256 for record in records]))


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
