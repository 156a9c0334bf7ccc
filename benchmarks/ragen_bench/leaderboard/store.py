"""Read and write the folders of entries, which come from strangers."""

import hashlib
import lzma
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from ragen_agents.policies.endpoint.settings import ADDRESSES
from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import new_folder, writing
from ragen_agents.run_files.yaml_files import validate
from ragen_bench.config.run_config import ENTRY
from ragen_bench.evaluation.run_table import Run, Sample, read_run
from ragen_bench.leaderboard.entry import Entry, EntryError, check_rules
from ragen_bench.runs.records import Record, parse_records
from ragen_envs.errors import RagenError

MAX_ENTRY: Final = 1 << 18
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
    """Return the bytes of a regular file."""
    if path.is_symlink() or not path.is_file():
        raise EntryError(f"{path.name} is {'a link' if path.is_symlink() else 'not a regular file'}")
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise EntryError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise EntryError(f"{path.name} has more than {limit} bytes")
    return data


def unpack(data: bytes, what: str) -> bytes:
    """Return the contents of one xz stream."""
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
    """Return the data of a JSON text."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise EntryError(f"{what} is not JSON: {error}") from error


EPISODES: Final = "episodes.jsonl.xz"
_UNPUBLISHED: Final = {"config": {"agents": {"__all__": {"endpoint": ADDRESSES}}}}
"""Fields that an entry leaves out."""


@dataclass(frozen=True)
class StoredEntry:
    """An entry as it lies in its folder: a run of one agent."""

    folder: Path
    entry: Entry
    records: list[Record[Episode]]

    @cached_property
    def run(self) -> Run:
        """The run, as one of ``ragen bench`` is read."""
        episodes = (record.episode for record in self.records)
        return Run.of(self.folder, self.entry.config, episodes, torn=False)

    def sample(self, game: str) -> Sample:
        """Return the agent's episodes of a game."""
        (agent,) = self.entry.config.agents
        return self.run.samples.get((agent.name, game), {})


def entry_folders(root: Path) -> list[Path]:
    """Return the folders of all entries, by name."""
    if not root.is_dir():
        raise RagenError(
            f"there is no folder '{root}'; run the command in a checkout, or name the folder with --entries"
        )
    folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    if not folders:
        raise RagenError(f"'{root}' has no entries")
    return folders


def read_about(folder: Path) -> Entry:
    """Read ``entry.json`` of a folder and hold it against the rules."""
    data = parse_json(read_file(folder / ENTRY, MAX_ENTRY), ENTRY)
    try:
        entry = validate(Entry, data, ENTRY)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if entry.about.name != folder.resolve().name:
        raise EntryError(f"about.name is '{entry.about.name}', but must be that of the folder")
    check_rules(entry)
    return entry


def read_entry(folder: Path) -> StoredEntry:
    """Read an entry with its episodes; nothing is played."""
    _check_folder(folder)
    entry = read_about(folder)
    data = unpack(read_file(folder / EPISODES, MAX_PACKED), EPISODES)
    if hashlib.sha256(data).hexdigest() != entry.episodes_sha256:
        raise EntryError(f"{EPISODES}: its SHA-256 is not the episodes_sha256 of {ENTRY}")
    _check_lines(data, len(entry.config.keys))
    try:
        episodes = parse_records(BytesIO(data), EPISODES, Episode)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if episodes.torn:
        raise EntryError(f"{EPISODES}: the last line is broken")
    return StoredEntry(folder, entry, episodes.records)


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise EntryError("is not a folder")
    names = sorted(path.name for path in folder.iterdir())
    if names != [ENTRY, EPISODES]:
        shown = ", ".join(names)
        raise EntryError(f"holds {shown!r:.200}, but must hold {ENTRY} and {EPISODES}")


def _check_lines(data: bytes, expected: int) -> None:
    if (lines := data.count(b"\n")) != expected:
        raise EntryError(f"{EPISODES} has {lines} episodes, but must have {expected}")
    for number, line in enumerate(BytesIO(data), start=1):
        if len(line) > MAX_LINE:
            raise EntryError(f"{EPISODES} line {number} has more than {MAX_LINE} bytes")


def write_entry(root: Path, entry: Entry, lines: bytes) -> Path:
    """Write an entry whole or not at all, in the place of an older one of its name; return its folder."""
    packed = lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME)
    for size, limit in ((len(lines), MAX_UNPACKED), (len(packed), MAX_PACKED)):
        if size > limit:
            raise RagenError(f"the episodes take {size} bytes, but an entry may have {limit}")
    folder = root / entry.about.name
    with writing(folder), new_folder(folder) as new:
        text = entry.model_dump_json(indent=1, exclude=_UNPUBLISHED) + "\n"
        (new / ENTRY).write_text(text, encoding="utf-8")
        (new / EPISODES).write_bytes(packed)
    return folder


def read_explainable(folder: Path, checked: bool = True) -> Run:
    """Read a run of ``ragen bench``, or an entry of the leaderboard as if it were one.

    The files of a run are compared with their hashes if ``checked``, those of an entry always.
    """
    return read_entry(folder).run if (folder / ENTRY).is_file() else read_run(folder, checked)
