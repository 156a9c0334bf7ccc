"""Read ``episodes.jsonl``: one Episode a line, from anywhere, so bounded and checked."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pydantic import ValidationError

from ragen_agents.rollout import Episode
from ragen_bench.yaml_files import explain
from ragen_envs.errors import RagenError

MAX_LINE: Final = 1 << 24
"""Most bytes of one episode."""


class EpisodeKey(NamedTuple):
    """What makes an episode one of its run."""

    agent: str
    task: str
    instance: int | None
    """Index of the frozen level."""
    attempt: int

    def __str__(self) -> str:
        return f"{self.agent} / {self.task} / instance {self.instance}, attempt {self.attempt}"


def key_of(episode: Episode) -> EpisodeKey:
    """Return the key of an episode within its run."""
    return EpisodeKey(episode.agent, episode.task, episode.instance.index, episode.attempt)


class DuplicateError(RagenError):
    """An episode is there twice."""


@dataclass(frozen=True)
class Record:
    """One line of the file."""

    line: int
    """Number of the line, from 1."""
    episode: Episode
    sha256: str
    """Hash of the line without its end."""


@dataclass(frozen=True)
class Records:
    """All of the file that can be read."""

    records: list[Record]
    size: int
    """Bytes up to the end of the last good line."""
    torn: bool
    """Whether a broken last line follows, as a kill in the middle of a write leaves it."""

    @property
    def episodes(self) -> list[Episode]:
        """The episodes in their order."""
        return [record.episode for record in self.records]


def encode_episode(episode: Episode) -> bytes:
    """Return an episode as a line, with its end."""
    line = episode.model_dump_json().encode()
    if len(line) >= MAX_LINE:
        raise RagenError(f"the episode {key_of(episode)} has more than {MAX_LINE} bytes")
    return line + b"\n"


def read_records(path: Path) -> Records:
    """Read an episodes file.

    Raises:
        RagenError: It cannot be read, or a line other than the last is broken; the message names
            file and line.
        DuplicateError: An episode is there twice.
    """
    try:
        with path.open("rb") as file:
            return parse_records(file, str(path))
    except OSError as error:
        raise RagenError(f"'{path}' cannot be read: {error.strerror}") from error


def parse_records(file: BinaryIO, what: str) -> Records:
    """Read episodes from an open file; ``what`` is how errors call it. See ``read_records``."""
    records: list[Record] = []
    seen: dict[EpisodeKey, int] = {}
    size = 0
    for number, line in _lines(file):
        if not line.endswith(b"\n") and len(line) <= MAX_LINE:
            return Records(records, size, torn=True)
        try:
            episode = _parse(line)
        except ValueError as error:
            if file.read(1):
                raise RagenError(f"{what} line {number} is corrupt: {error}") from error
            return Records(records, size, torn=True)
        key = key_of(episode)
        if key in seen:
            raise DuplicateError(f"{what} line {number} repeats line {seen[key]}: {key}")
        seen[key] = number
        records.append(Record(number, episode, hashlib.sha256(line[:-1]).hexdigest()))
        size += len(line)
    return Records(records, size, torn=False)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        yield number, line


def _parse(line: bytes) -> Episode:
    if len(line) > MAX_LINE:
        raise ValueError("longer than allowed")
    try:
        return Episode.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise ValueError(explain(error, Episode)) from error
