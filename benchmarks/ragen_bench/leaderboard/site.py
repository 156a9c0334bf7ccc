"""Check all entries and write the leaderboard site with its downloads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from ragen_bench.config.control_games import controls_of
from ragen_bench.config.suites import load_suite
from ragen_bench.leaderboard.charts import PREVIEW, draw_preview
from ragen_bench.leaderboard.check import Tick, check_entry
from ragen_bench.leaderboard.entry import SUITE, EntryError, check_titles
from ragen_bench.leaderboard.overall import overall_standings
from ragen_bench.leaderboard.pages import Pages
from ragen_bench.leaderboard.standings import (
    Standing,
    ledgers_of,
    samples_of,
    standings,
    with_decisions,
)
from ragen_bench.leaderboard.store import StoredEntry, entry_folders
from ragen_bench.viewer.templates import new_site, refuse_other_folder
from ragen_envs.errors import RagenError, install_hint

if TYPE_CHECKING:
    from ragen_bench.reproduction.reproduction_report import Report

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of what spreadsheets calculate."""


def write_table(folder: Path, name: str, table: pd.DataFrame) -> None:
    """Write a table as ``NAME.csv`` and ``NAME.parquet``."""
    folder.mkdir(parents=True, exist_ok=True)
    table.map(_inert).to_csv(folder / f"{name}.csv", index=False)
    parquet.write_table(
        pa.Table.from_pandas(table, preserve_index=False), folder / f"{name}.parquet"
    )


def _inert(cell: object) -> object:
    """Return a cell as a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def standings_table(tables: Mapping[str, Sequence[Standing]]) -> pd.DataFrame:
    """Return all rows of tables by the name of their game."""
    rows_of_games = [
        {"game": game, "entry": row.name, "title": row.title, "rank": row.rank, **row.row}
        for game, rows in tables.items()
        for row in rows
    ]
    columns = None if rows_of_games else ["game", "entry", "title", "rank"]
    return pd.DataFrame(rows_of_games, columns=columns).astype({"rank": "Int64"})


def episodes_table(entries: Sequence[StoredEntry]) -> pd.DataFrame:
    """Return one row for each episode, without its texts."""
    return pd.DataFrame(
        {
            "entry": stored.entry.about.name,
            "game": record.episode.task,
            "level": record.episode.instance.index,
            "key": record.episode.instance.key,
            "success": record.episode.success,
            "return": record.episode.episode_return,
            "optimal_success": record.episode.optimal_success,
            "optimal_return": record.episode.optimal_return,
            "random_success": record.episode.random_success,
            "random_return": record.episode.random_return,
            "end": record.episode.end.value,
            "turns": len(record.episode.turns),
            "actions": sum(len(turn.executed) for turn in record.episode.turns),
            "defects": sum(len(turn.defects) for turn in record.episode.turns),
            "soft_defects": sum(len(turn.soft_defects) for turn in record.episode.turns),
        }
        for stored in entries
        for record in stored.records
    )


def build_site(
    root: Path, results: Path, out: Path, tick: Tick | None = None, url: str | None = None
) -> None:
    """Check all entries and write the site, in the place of an older one."""
    refuse_other_folder(out)
    entries = _checked(entry_folders(root), tick)
    reports = _reports(results)
    with new_site(out) as new:
        _write(entries, reports, new, url)


def _reports(results: Path) -> "list[Report]":
    if not any(results.glob("*/*.jsonl")):
        return []
    try:
        from ragen_bench.reproduction.reproduction_report import kept_reports
    except ImportError as error:
        raise RagenError(
            f"the results in '{results}' need {error.name}; {install_hint('train')}, "
            "or name an empty folder with --results"
        ) from None
    return kept_reports(results)


def _checked(folders: Sequence[Path], tick: Tick | None) -> list[StoredEntry]:
    checked: list[StoredEntry] = []
    for number, folder in enumerate(folders):
        if tick is not None:
            tick(number, len(folders))
        try:
            checked.append(check_entry(folder))
        except EntryError as error:
            raise RagenError(f"entry '{folder}' is rejected: {error}") from error
    check_titles(stored.entry for stored in checked)
    return checked


def _write(
    stored: Sequence[StoredEntry], reports: "Sequence[Report]", out: Path, url: str | None
) -> None:
    entries = [each for each in stored if each.entry.is_current]
    old = [each.entry.about.title for each in stored if not each.entry.is_current]
    suite = load_suite(SUITE)
    games, controls = list(suite.tasks), controls_of(suite.tasks)
    samples = {game: samples_of(entries, game) for game in games}
    overall = overall_standings(entries, {g: samples[g] for g in games if g not in controls})
    ledgers = {game: ledgers_of(samples[game]) for game in games}
    tables = {
        game: with_decisions(standings(entries, samples[game]), ledgers[game], samples[game])
        for game in games
    }
    draw_preview(overall, out / PREVIEW)
    write_table(out / "data", "overall", standings_table({"all": overall}))
    write_table(out / "data", "games", standings_table(tables))
    write_table(out / "data", "episodes", episodes_table(entries))
    pages = Pages(out, entries, suite, reports, old, url)
    pages.write_index(overall, tables)
    pages.write_about()
    for game in games:
        pages.write_game(game, tables[game], samples[game])
        pages.write_beside(game)
    for each in entries:
        pages.write_entry(each, tables)
        for game in games:
            pages.write_episodes(each, game, ledgers[game].get(each.entry.about.name, {}))
    for report in reports:
        write_table(out / "data", report.what.name, report.data)
        pages.write_result(report)
    if reports:
        pages.write_results()
