"""Tables of entries of older suite versions, which are never ranked with others."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragen_bench.config.control_games import controls_of
from ragen_bench.config.suite_versions import is_old
from ragen_bench.leaderboard.overall import overall_standings
from ragen_bench.leaderboard.standings import Standing, samples_of, standings
from ragen_bench.leaderboard.store import StoredEntry


class OldTable(NamedTuple):
    """The entries of an older suite version."""

    entries: Sequence[StoredEntry]
    overall: Sequence[Standing]
    """Over all games but controls."""
    tables: Mapping[str, Sequence[Standing]]
    """By game."""


def old_tables(entries: Sequence[StoredEntry]) -> dict[int, OldTable]:
    """Return the tables of the older suite versions of which there are entries, the newest first."""
    versions = {stored.entry.config.suite_version for stored in entries}
    return {
        version: _table([e for e in entries if e.entry.config.suite_version == version])
        for version in sorted(versions, reverse=True)
        if is_old(version)
    }


def _table(entries: Sequence[StoredEntry]) -> OldTable:
    tasks = entries[0].entry.config.suite.tasks
    controls = controls_of(tasks)
    samples = {game: samples_of(entries, game) for game in tasks}
    overall = overall_standings(entries, {g: samples[g] for g in tasks if g not in controls})
    return OldTable(entries, overall, {game: standings(entries, samples[game]) for game in tasks})
