"""Read ``episodes.jsonl``, an episode or a match a line; it may come from anywhere, so it is checked."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from pydantic import ValidationError

from ragen_agents.rollout import Episode, EpisodeKey, EpisodeSpec, MatchKey, MatchRecord
from ragen_agents.run_files.yaml_files import explain
from ragen_envs.errors import RagenError

EpisodeT = TypeVar("EpisodeT", Episode, MatchRecord)
"""Content of a run's lines: episodes of one player, or of several."""


class WrongEpisodeError(RagenError):
    """An episode is there twice, or is none of the run."""


@dataclass(frozen=True)
class Record(Generic[EpisodeT]):
    """One line of the file."""

    line: int
    """Number of the line, from 1."""
    episode: EpisodeT
    sha256: str
    """Hash of the line without its end."""


@dataclass(frozen=True)
class Records(Generic[EpisodeT]):
    """All of the file that can be read."""

    records: list[Record[EpisodeT]]
    size: int
    """Bytes up to the end of the last good line."""
    torn: bool
    """Whether a broken last line follows, as a kill in the middle of a write leaves it."""

    @property
    def episodes(self) -> list[EpisodeT]:
        """The episodes in their order."""
        return [record.episode for record in self.records]


def replay_spec(episode: Episode) -> EpisodeSpec:
    """Return the spec by which an episode of a frozen level can be played again."""
    instance = episode.instance
    assert instance.index is not None
    return EpisodeSpec(
        episode.task, episode.env_id, instance.index, instance.split, instance.noise, episode.attempt,
        episode.env_kwargs,
    )  # fmt: skip


def encode_episode(episode: Episode | MatchRecord) -> bytes:
    """Return an episode as a line, with its end."""
    return episode.model_dump_json().encode() + b"\n"


def read_records(path: Path, kind: type[EpisodeT]) -> Records[EpisodeT]:
    """Read an episodes file whose lines are of one kind; only its last line may be broken."""
    try:
        with path.open("rb") as file:
            return parse_records(file, str(path), kind)
    except OSError as error:
        raise RagenError(f"'{path}' cannot be read: {error.strerror}") from error


def parse_records(file: BinaryIO, what: str, kind: type[EpisodeT]) -> Records[EpisodeT]:
    """Read episodes from an open file; ``what`` is how errors call it. See ``read_records``."""
    records: list[Record[EpisodeT]] = []
    seen: dict[EpisodeKey | MatchKey, int] = {}
    size = 0
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n"):
            return Records(records, size, torn=True)
        try:
            episode = _parse(line, kind)
        except ValueError as error:
            if file.read(1):
                raise RagenError(f"{what} line {number} is corrupt: {error}") from error
            return Records(records, size, torn=True)
        key = episode.key
        if key in seen:
            raise WrongEpisodeError(f"{what} line {number} repeats line {seen[key]}: {key}")
        seen[key] = number
        records.append(Record(number, episode, hashlib.sha256(line[:-1]).hexdigest()))
        size += len(line)
    return Records(records, size, torn=False)


def _parse(line: bytes, kind: type[EpisodeT]) -> EpisodeT:
    try:
        return kind.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise ValueError(explain(error, kind)) from error
