"""Check an entry: replay every reply and recompute every number."""

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path

from ragen_agents.rollout import Episode
from ragen_bench.config.suites import check_suite
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.run_table import summarise_episodes
from ragen_bench.leaderboard.entry import MAX_ERRORS, EntryError, GameResult
from ragen_bench.leaderboard.store import EPISODES, StoredEntry, read_entry
from ragen_bench.runs.records import Record
from ragen_bench.verification.run_verification import Replay, replay_here
from ragen_envs.errors import RagenError


def check_entry(folder: Path, track: Track = iter, replay_all: Replay = replay_here) -> StoredEntry:
    """Read an entry, replay its episodes, and recompute its results."""
    stored = read_entry(folder)
    try:
        check_suite(stored.entry.config.suite)
    except RagenError as error:
        raise EntryError(str(error)) from error
    _check_complete(stored)
    _check_errors(stored)
    replayed = replay_all(EPISODES, stored.records, stored.entry.config)
    try:
        differs = next((each for _ in track(stored.records) if (each := next(replayed))), None)
    except RagenError as error:
        raise EntryError(str(error)) from error
    if differs is not None:
        raise EntryError(differs)
    _check_results(stored)
    return stored


def check_copies(entries: Iterable[StoredEntry]) -> None:
    """Check that no entry has the replies of another one."""
    seen: dict[str, str] = {}
    for stored in entries:
        name = stored.entry.about.name
        other = seen.setdefault(_replies_digest(stored.records), name)
        if other != name:
            raise EntryError(f"the replies of '{name}' are those of '{other}'")


def _replies_digest(records: Iterable[Record[Episode]]) -> str:
    replies = [[turn.reply for turn in record.episode.turns] for record in records]
    return hashlib.sha256(json.dumps(replies).encode()).hexdigest()


def _check_complete(stored: StoredEntry) -> None:
    """Check that the episodes are those of the suite, each once, in its order."""
    for record, key in zip(stored.records, stored.entry.config.keys, strict=True):
        if record.episode.key != key:
            raise EntryError(
                f"{EPISODES} line {record.line} is {record.episode.key!s:.200}, but must be {key}"
            )


def _check_errors(stored: StoredEntry) -> None:
    failed = sum(record.episode.end.is_failure for record in stored.records)
    if failed > MAX_ERRORS * len(stored.records):
        raise EntryError(
            f"{failed} of {len(stored.records)} episodes ended in an error or exceeded the context, but "
            f"at most {MAX_ERRORS:.0%} may; ragen bench --retry-errors plays them again"
        )


def _check_results(stored: StoredEntry) -> None:
    for game, result in results_of(record.episode for record in stored.records).items():
        given = stored.entry.results[game]
        for field in GameResult.model_fields:
            recorded, recomputed = getattr(given, field), getattr(result, field)
            if not _same(recorded, recomputed):
                raise EntryError(f"results.{game}.{field}: recorded {recorded}, recomputed {recomputed}")


def _same(recorded: float | None, recomputed: float | None) -> bool:
    if recorded is None or recomputed is None:
        return recorded is recomputed
    return math.isclose(recorded, recomputed, rel_tol=1e-9, abs_tol=1e-12)  # means may be rounded otherwise


def results_of(episodes: Iterable[Episode]) -> dict[str, GameResult]:
    """Return the results of episodes by game, in their order."""
    games: dict[str, list[Episode]] = {}
    for episode in episodes:
        games.setdefault(episode.task, []).append(episode)
    return {game: _result(played) for game, played in games.items()}


def _result(played: list[Episode]) -> GameResult:
    row = {**summarise_episodes(played), "episodes": len(played), "solved": sum(e.success for e in played)}
    known = {name: None if math.isnan(row[name]) else row[name] for name in GameResult.model_fields}
    return GameResult.model_validate(known)
