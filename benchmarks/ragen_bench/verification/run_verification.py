"""Verify a run: replay every episode and recompute every number."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import MatchRecord
from ragen_bench.config.run_config import AnyConfig, EditedFileError, MatchConfig, Units, load_config
from ragen_bench.config.suites import check_suite
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.match_player import count_seats
from ragen_bench.evaluation.ray_cluster import RayCluster, check_placement
from ragen_bench.runs.checksums import check_lines, read_checksums
from ragen_bench.runs.directory import EPISODES, check_keys, read_episodes
from ragen_bench.runs.environments import check_environment
from ragen_bench.runs.picture_files import PICTURES, kept_hash
from ragen_bench.runs.records import Record, WrongEpisodeError
from ragen_bench.verification.replay import Check, config_checks, match_checks, replay
from ragen_envs.errors import RagenError

_CHUNK: Final = 128
"""Records that one call replays on a cluster."""


class MismatchError(Exception):
    """The first mismatch in a run."""


class Verified(NamedTuple):
    """The coverage of a verification."""

    episodes: int
    turns: int
    missing: int
    """Episodes of the config that are missing."""
    torn: bool
    """Whether an incomplete last line was skipped."""
    hashed: bool
    """Whether there were checksums."""
    unhashed: int
    """Episodes at the end that the checksums do not cover, as an interruption leaves them."""
    units: Units = "episodes"
    """Records of the run, which the counts are of."""


Replay = Callable[[str, Sequence[Record[Any]], AnyConfig], Iterator[None]]
"""Replays records, one at each step; raises `MismatchError` at the first that differs."""


def replay_here(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> Iterator[None]:
    """Replay records in this process."""
    for record in records:
        verify_record(what, record, config)
        yield


def replay_on_ray(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> Iterator[None]:
    """Replay records on the cluster at ``RAY_ADDRESS``, or on the CPUs of this machine.

    Raises:
        MismatchError: At the first record that differs.
        RagenError: There is no such cluster, or it lost the same records too often.
    """
    chunks = (records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK))
    calls = ((what, list(chunk), config) for chunk in chunks)
    for mismatches in RayCluster(1, 0).map(_mismatches, calls):
        for mismatch in mismatches:
            if mismatch is not None:
                raise MismatchError(mismatch)
            yield


def _mismatches(what: str, records: Sequence[Record[Any]], config: AnyConfig) -> list[str | None]:
    """Return the mismatch of each record or None, up to the first mismatch."""
    mismatches: list[str | None] = []
    for record in records:
        try:
            verify_record(what, record, config)
        except MismatchError as error:
            return [*mismatches, str(error)]
        mismatches.append(None)
    return mismatches


def replayer(backend: str) -> Replay:
    """Return the function that replays records on a backend, "local" or "ray"."""
    check_placement(backend, None)
    return replay_on_ray if backend == "ray" else replay_here


def verify_run(folder: Path, track: Track = iter, replay_all: Replay = replay_here) -> Verified:
    """Replay every episode of a run.

    Raises:
        MismatchError: Something differs; the message names file, line, episode, turn and field.
        RagenError: The run cannot be read.
    """
    path = folder / EPISODES
    # The run may continue meanwhile: hashes read before need episodes, and episodes hashes read after.
    before = read_checksums(folder)
    try:
        config = load_config(folder)
        read = read_episodes(folder, config)
        check_environment(folder)
        check_keys(folder, read, config)
    except (WrongEpisodeError, EditedFileError) as error:
        raise MismatchError(str(error)) from error
    checksums = read_checksums(folder)
    if isinstance(config, MatchConfig):  # refuse games, settings and levels that do not exist
        count_seats(config.suite, ())
    else:
        check_suite(config.suite)
    replayed = replay_all(str(path), read.records, config)
    for record in track(read.records):
        next(replayed)
        _verify_pictures(path, record)
    try:
        for written in (before or [], (checksums or [])[: len(read.records)]):
            check_lines(folder, read.records, written)
    except EditedFileError as error:
        raise MismatchError(str(error)) from error
    bare = 0 if checksums is None else max(0, len(read.records) - len(checksums))
    turns = sum(len(episode.turns) for episode in read.episodes)
    missing = len(config.keys) - len(read.records)
    hashed = checksums is not None
    return Verified(len(read.records), turns, missing, read.torn, hashed, bare, config.units)


def verify_record(what: str, record: Record[Any], config: AnyConfig) -> None:
    """Replay one episode of a run; its key must be one of the config's.

    Raises:
        MismatchError: Something differs; the message names line, episode, turn and field.
    """
    try:
        _raise_first(what, record, _checks(config, record))
    except MismatchError as error:
        first, second = ([str(check.recomputed) for check in _checks(config, record)] for _ in "ab")
        if first == second:
            raise
        raise MismatchError(
            f"{error}; two more replays of it differ from each other, so the environment is not "
            "deterministic under a seed and its runs cannot be verified"
        ) from error


def _raise_first(what: str, record: Record[Any], checks: Iterator[Check]) -> None:
    """Raise `MismatchError` at the first check that fails."""
    for check in checks:
        if not check.holds:
            turn = "" if check.turn is None else f", turn {check.turn}"
            raise MismatchError(
                f"{what} line {record.line}: {record.episode.key}{turn}, {check.field}: "
                f"recorded {_short(check.recorded)}, recomputed {_short(check.recomputed)}"
            )


def _checks(config: AnyConfig, record: Record[Any]) -> Iterator[Check]:
    try:
        if isinstance(config, MatchConfig):
            yield from match_checks(config, record.episode)
        else:
            yield from chain(config_checks(config, record.episode), replay(record.episode))
    except RagenError as error:
        yield Check(None, "replay", "was played", f"{error}")
    # Only the current suite version is replayed, and its records are of the current schema.
    schema = type(record.episode).model_fields["schema_version"].default
    yield Check(None, "schema_version", record.episode.schema_version, schema)


def _verify_pictures(path: Path, record: Record[Any]) -> None:
    """Check that the files hold the pictures that the agent saw; controls and seats see none."""
    if isinstance(record.episode, MatchRecord) or record.episode.agent in CONTROLS:
        return
    for number, turn in enumerate(record.episode.turns, start=1):
        if turn.picture is None:
            continue
        stored = kept_hash(path.parent, turn.picture)
        if stored != turn.picture:
            raise MismatchError(
                f"{path} line {record.line}: {record.episode.key}, turn {number}, the file "
                f"{PICTURES}/{turn.picture}.png: recorded {turn.picture[:12]}, found {stored[:80]}"
            )


def _short(value: object) -> str:
    """Return a value for a message; ``repr`` escapes what a terminal would obey."""
    text = repr(str(value) if isinstance(value, StrEnum) else value)
    return text if len(text) <= 300 else f"{text[:297]}..."
