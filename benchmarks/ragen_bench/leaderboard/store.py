"""Folders of entries: found, read, written."""

import hashlib
import lzma
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import new_folder
from ragen_agents.run_files.yaml_files import validate
from ragen_bench.config.run_config import ENTRY
from ragen_bench.config.suite_versions import check_playable
from ragen_bench.leaderboard.entry import Entry
from ragen_bench.leaderboard.rules import EntryError, check_rules
from ragen_bench.leaderboard.untrusted import (
    MAX_ENTRY,
    MAX_LINE,
    MAX_PACKED,
    MAX_UNPACKED,
    parse_json,
    read_file,
    unpack,
)
from ragen_bench.runs.records import Record, parse_records
from ragen_envs.game.errors import RagenError

EPISODES: Final = "episodes.jsonl.xz"
_UNPUBLISHED: Final = {"config": {"agents": {"__all__": {"endpoint": {"base_url"}}}}}
"""Fields that an entry leaves out."""


class StoredEntry(NamedTuple):
    """An entry as it lies in its folder."""

    entry: Entry
    records: list[Record[Episode]]


def entry_folders(root: Path) -> list[Path]:
    """Return the folders of all entries, by name.

    Raises:
        RagenError: There is no such folder, or no entry in it.
    """
    if not root.is_dir():
        raise RagenError(
            f"there is no folder '{root}'; run the command in a checkout, or name the folder with --entries"
        )
    found = sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    if not found:
        raise RagenError(f"'{root}' has no entries")
    return found


def read_about(folder: Path) -> Entry:
    """Read ``entry.json`` of a folder and hold it against the rules.

    Raises:
        EntryError: Something is not what it should be.
    """
    data = parse_json(read_file(folder / ENTRY, MAX_ENTRY), ENTRY)
    try:
        entry = validate(Entry, data, ENTRY)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if entry.about.name != folder.resolve().name:
        raise EntryError(f"about.name is '{entry.about.name}', but must be that of the folder")
    check_rules(entry)
    return entry


def refuse_replay(folder: Path) -> NoReturn:
    """Raise `RagenError` that says how the episodes of an entry, which is no run, can be replayed."""
    check_playable(f"'{folder}' is an entry", read_about(folder).config.suite_version)
    raise RagenError(f"'{folder}' is a leaderboard entry; ragen leaderboard check replays it")


def read_entry(folder: Path) -> StoredEntry:
    """Read an entry with its episodes; nothing is played.

    Raises:
        EntryError: Something is not what it should be; the message says where.
    """
    _check_folder(folder)
    entry = read_about(folder)
    data = unpack(read_file(folder / EPISODES, MAX_PACKED), EPISODES)
    if hashlib.sha256(data).hexdigest() != entry.episodes_sha256:
        raise EntryError(f"{EPISODES}: its SHA-256 is not the episodes_sha256 of {ENTRY}")
    _check_lines(data, len(entry.config.keys))
    try:
        found = parse_records(BytesIO(data), EPISODES, Episode)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if found.torn:
        raise EntryError(f"{EPISODES}: the last line is broken")
    return StoredEntry(entry, found.records)


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
        parse_json(line, f"{EPISODES} line {number}")


def write_entry(root: Path, entry: Entry, lines: bytes) -> Path:
    """Write an entry whole or not at all, in the place of an older one of its name; return its folder.

    Raises:
        RagenError: It is larger than an entry may be, or cannot be written.
    """
    packed = lzma.compress(lines, preset=9 | lzma.PRESET_EXTREME)
    for size, limit in ((len(lines), MAX_UNPACKED), (len(packed), MAX_PACKED)):
        if size > limit:
            raise RagenError(f"the episodes take {size} bytes, but an entry may have {limit}")
    folder = root / entry.about.name
    try:
        with new_folder(folder) as new:
            text = entry.model_dump_json(indent=1, exclude=_UNPUBLISHED) + "\n"
            (new / ENTRY).write_text(text, encoding="utf-8")
            (new / EPISODES).write_bytes(packed)
    except OSError as error:
        raise RagenError(f"'{folder}' cannot be written: {error.strerror}") from error
    return folder
