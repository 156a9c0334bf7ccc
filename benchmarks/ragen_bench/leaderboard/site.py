"""The leaderboard as a site: checked, written whole or not at all, and without any request to elsewhere."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragen_agents.run_files.files import new_folder
from ragen_bench.config.control_games import controls_of
from ragen_bench.config.suite_versions import is_old
from ragen_bench.config.suites import load_suite
from ragen_bench.leaderboard.decisions import ledgers_of, with_decisions
from ragen_bench.leaderboard.downloads import episodes_table, standings_table, write_table
from ragen_bench.leaderboard.entry_check import Tick, check_entry
from ragen_bench.leaderboard.old_versions import old_tables
from ragen_bench.leaderboard.overall import overall_standings
from ragen_bench.leaderboard.pages import Pages
from ragen_bench.leaderboard.preview import PREVIEW, draw_preview
from ragen_bench.leaderboard.rules import SUITE, EntryError, check_titles
from ragen_bench.leaderboard.standings import samples_of, standings
from ragen_bench.leaderboard.store import StoredEntry, entry_folders
from ragen_bench.viewer.run_pages import refuse_other_folder
from ragen_bench.viewer.templates import write_assets
from ragen_envs.game.errors import RagenError, install_hint

if TYPE_CHECKING:
    from ragen_bench.reproduction.reproduction_report import Report


def build_site(
    root: Path, results: Path, out: Path, tick: Tick | None = None, url: str | None = None
) -> None:
    """Check all entries and write the site, in the place of an older one.

    Args:
        root: Folder of the entries.
        results: Folder of the results of sweeps, whose tables have pages too; it may be missing.
        out: Folder of the site.
        tick: Called with the number of checked entries and their total.
        url: Where the site will be, for previews of links to it, which need whole addresses.

    Raises:
        RagenError: An entry is rejected, results are broken, or the folder holds something else or
            cannot be written.
    """
    refuse_other_folder(out)
    reports = _reports(results)
    entries = _checked(entry_folders(root), tick)
    try:
        with new_folder(out) as new:
            _write(entries, reports, new, url)
    except OSError as error:
        raise RagenError(f"'{out}' cannot be written: {error.strerror}") from error


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
    found: list[StoredEntry] = []
    for number, folder in enumerate(folders):
        if tick is not None:
            tick(number, len(folders))
        try:
            found.append(check_entry(folder))
        except EntryError as error:
            raise RagenError(f"entry '{folder}' is rejected: {error}") from error
    check_titles(stored.entry for stored in found)
    return found


def _write(
    stored: Sequence[StoredEntry], reports: "Sequence[Report]", out: Path, url: str | None
) -> None:
    """Write all pages: older suite versions have tables of their own, and no boards to show."""
    entries = [each for each in stored if not is_old(each.entry.config.suite_version)]
    old = old_tables(stored)
    suite = load_suite(SUITE)
    games, controls = list(suite.tasks), controls_of(suite.tasks)
    samples = {game: samples_of(entries, game) for game in games}
    overall = overall_standings(entries, {g: samples[g] for g in games if g not in controls})
    ledgers = {game: ledgers_of(samples[game]) for game in games}
    tables = {
        game: with_decisions(standings(entries, samples[game]), ledgers[game], samples[game])
        for game in games
    }
    write_assets(out)
    draw_preview(overall, out / PREVIEW)
    write_table(out / "data", "overall", standings_table({"all": overall}))
    write_table(out / "data", "games", standings_table(tables))
    write_table(out / "data", "episodes", episodes_table(entries))
    for version, table in old.items():
        write_table(out / "data", f"version-{version}", standings_table(table.tables))
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
    for table in old.values():
        for each in table.entries:
            pages.write_entry(each, table.tables)
    for report in reports:
        write_table(out / "data", report.what.name, report.data)
        pages.write_result(report)
    if reports:
        pages.write_results()
