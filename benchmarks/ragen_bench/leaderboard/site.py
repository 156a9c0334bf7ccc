"""Check all entries and write the leaderboard site with its downloads."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from ragen_agents.policies import CONTROLS
from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_bench.analysis.ledger import Ledger
from ragen_bench.analysis.summary import explain_run
from ragen_bench.config.suites import Suite, control_notes, controls_of, load_suite
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.run_table import REFERENCE
from ragen_bench.export.flat_tables import episode_rows
from ragen_bench.leaderboard.charts import HEIGHT, MOST, WIDTH, lengths_plot, tokens_plot, training_plot
from ragen_bench.leaderboard.check import check_copies, check_entry
from ragen_bench.leaderboard.entry import (
    LEVELS,
    MAX_ERRORS,
    SUITE,
    EntryError,
    check_titles,
    prompt_settings,
    prompt_words,
)
from ragen_bench.leaderboard.standings import (
    Samples,
    Standing,
    below_random,
    by_length,
    overall_standings,
    standings,
    with_decisions,
)
from ragen_bench.leaderboard.store import StoredEntry, entry_folders
from ragen_bench.viewer.run_pages import beside_values, viewer_values
from ragen_bench.viewer.templates import new_site, page_templates, refuse_other_folder, write_page
from ragen_envs.errors import RagenError, install_hint

if TYPE_CHECKING:
    from ragen_bench.reproduction.reproduction_report import Report


Tables = Mapping[str, Sequence[Standing]]

_COLOURS: Final = 6
"""Colours that the style sheet has for entries."""


def training_words(trained_on: Sequence[str], games: Iterable[str]) -> str:
    """Name the games that an agent was trained on, or those that it was not where they are fewer."""
    others = [game for game in games if game not in trained_on]
    if not trained_on:
        return "–"
    if not others:
        return "all"
    few = len(others) < len(trained_on)
    return f"all but {', '.join(others)}" if few else ", ".join(trained_on)


class Pages:
    """Writes pages below a folder."""

    def __init__(
        self,
        out: Path,
        entries: Sequence[StoredEntry],
        suite: Suite,
        reports: "Sequence[Report]",
    ) -> None:
        self._out, self._reports = out, reports
        described = {s.entry.about.name: s.entry for s in entries}
        self._titles = {s.entry.about.name: s.entry.about.title for s in entries}
        self._entries, self._suite = entries, suite
        templates = page_templates()
        self._write = partial(write_page, templates, out)
        ranked = [name for name in self._titles if name not in CONTROLS]
        colours = {name: f"s{i % _COLOURS} d{i // _COLOURS}" for i, name in enumerate(ranked)}
        colours[REFERENCE] = "control"
        templates.globals.update(
            base="base.html.j2", games=list(suite.tasks), controls=controls_of(suite.tasks),
            width=WIDTH, height=HEIGHT, most=MOST, colours=colours, has_results=bool(reports),
            described=described, levels=LEVELS,
            training_words=training_words, prompt_words=prompt_words, prompt_settings=prompt_settings,
            prompts=self._prompts,
            agent_words=agent_words, agent_options=agent_options,
            control_names=CONTROLS,
        )  # fmt: skip

    def write_index(self, overall: Sequence[Standing], tables: Tables) -> None:
        """Write the first page: the table over all games, and what they add up to."""
        trained = [s for s in self._entries if s.entry.about.trained_on]
        scores = {game: {row.name: row.row["score"] for row in rows} for game, rows in tables.items()}
        self._write(
            "index.html",
            "index.html",
            rows=overall,
            tables=tables,
            plot=tokens_plot(overall),
            trained=trained,
            scores=scores,
            suite=self._suite,
            control_notes=control_notes(self._suite.tasks),
            below_random=below_random(trained),
        )

    def write_about(self) -> None:
        """Write the page that says what is measured, what is checked, and how to submit."""
        self._write("about.html", "about.html", suite=self._suite, max_errors=MAX_ERRORS)

    def _prompts(self, rows: Sequence[Standing]) -> list[str]:
        shown = {row.name for row in rows if not row.control}
        suites = {s.entry.about.name: s.entry.config.suite for s in self._entries}
        return sorted({prompt_words(suite) for name, suite in suites.items() if name in shown})

    def write_game(self, game: str, rows: Sequence[Standing], samples: Samples) -> None:
        """Write the page of a game."""
        lengths = by_length(samples)
        ranked = [row.name for row in rows if not row.control]
        self._write(
            f"games/{game}.html",
            "game.html",
            game=game,
            rows=rows,
            lengths=lengths,
            plot=lengths_plot(lengths, self._titles, ranked),
            entries=len(ranked),
        )

    def write_entry(self, stored: StoredEntry, tables: Tables) -> None:
        """Write the page of an entry."""
        name = stored.entry.about.name
        rows = {game: row for game, standing in tables.items() for row in standing if row.name == name}
        training = stored.entry.training
        self._write(
            f"entries/{name}.html",
            "entry.html",
            entry=stored.entry,
            rows=rows,
            plot=None if training is None else training_plot(training),
        )

    def write_episodes(self, stored: StoredEntry, game: str, ledgers: Sequence[Ledger]) -> None:
        """Write the viewer of an entry's episodes of a game, with what their decisions cost."""
        episodes = list(stored.sample(game).values())
        self._write(
            f"episodes/{stored.entry.about.name}/{game}.html",
            "episodes.html",
            game=game,
            **viewer_values(episodes, {each.episode.key: each for each in ledgers}),
            agent_links={f"../{name}/{game}.html": title for name, title in self._titles.items()},
            game_links={f"{name}.html": name for name in self._suite.tasks},
            beside=f"../../beside/{game}.html" if len(self._titles) > 1 else None,
            here=(f"../{stored.entry.about.name}/{game}.html", f"{game}.html"),
        )

    def write_beside(self, game: str) -> None:
        """Write the page that shows two entries on the same level."""
        samples = {stored.entry.about.name: list(stored.sample(game).values()) for stored in self._entries}
        links = {name: f"../episodes/{name}/{game}.html" for name in samples}
        agents = beside_values(samples, links)
        for agent in agents:
            agent["name"] = self._titles[agent["name"]]
        self._write(f"beside/{game}.html", "beside.html", game=game, agents=agents)

    def write_results(self) -> None:
        """Write the list of the paper's tables, with how many claims hold."""
        from ragen_bench.reproduction.claims import WORDS

        rows = [
            (report.exhibit, [[v.verdict for v in report.verdicts].count(word) for word in WORDS])
            for report in self._reports
        ]
        self._write("results/index.html", "results.html", words=WORDS, rows=rows)

    def write_result(self, report: "Report") -> None:
        """Write the page of a table or figure of the paper."""
        name, drawing = report.exhibit.name, report.drawing
        self._write(
            f"results/{name}.html",
            "result.html",
            exhibit=report.exhibit,
            sweep=report.exhibit.load_sweep(),
            notes=report.notes(),
            matrix=report.matrix,
            claims=report.claims,
            table=report.table,
            cells=report.cells,
            caption="" if drawing is None else report.caption,
        )
        if drawing is not None:
            (self._out / "results" / f"{name}.svg").write_text(drawing, encoding="utf-8")


def agent_words(settings: EndpointSettings) -> list[str]:
    """Return in words what requests have besides the sampling, such as ``stop ["###"]``."""
    words = [f"stop {json.dumps(settings.stop)}"] if settings.stop else []
    if settings.extra_body:
        words.append(f"every request merged with {json.dumps(settings.extra_body)}")
    if settings.tools:
        words.append("acts by tool calls")
    if settings.system == "merge":
        words.append("the system message is part of the first user message")
    return words


def agent_options(settings: EndpointSettings) -> list[str]:
    """Return the options of ``ragen bench`` that make these settings, quoted for a shell."""
    words = [word for text in settings.stop for word in ("--stop", _quoted(text))]
    if settings.extra_body:
        words += ["--extra-body", shlex.quote(json.dumps(settings.extra_body))]
    if settings.tools:
        words.append("--tools")
    if settings.system == "merge":
        words.append("--system merge")
    return words


def _quoted(text: str) -> str:
    """Return a text as a shell reads it, on one line."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + json.dumps(text)[1:-1].replace("'", r"\'") + "'"


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of what spreadsheets calculate."""


def write_table(folder: Path, name: str, table: pd.DataFrame) -> None:
    """Write a table as ``NAME.csv`` and ``NAME.parquet``."""
    folder.mkdir(parents=True, exist_ok=True)
    table.map(_inert).to_csv(folder / f"{name}.csv", index=False)
    parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / f"{name}.parquet")


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
    """Return the rows of `episode_rows` of all entries, without the texts."""
    rows = pd.concat([episode_rows(stored.run) for stored in entries], ignore_index=True)
    return rows.rename(columns={"agent": "entry"}).drop(columns=["settings", "board", "error", "system"])


def build_site(root: Path, results: Path, out: Path, track: Track = iter) -> None:
    """Check all entries and write the site, in the place of an older one."""
    refuse_other_folder(out)
    entries = _checked(entry_folders(root), track)
    reports = _reports(results)
    with new_site(out) as new:
        _write(entries, reports, new)


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


def _checked(folders: Sequence[Path], track: Track) -> list[StoredEntry]:
    checked: list[StoredEntry] = []
    for folder in track(folders):
        try:
            checked.append(check_entry(folder))
        except EntryError as error:
            raise RagenError(f"entry '{folder}' is rejected: {error}") from error
    check_titles(stored.entry for stored in checked)
    check_copies(checked)
    return checked


def _write(entries: Sequence[StoredEntry], reports: "Sequence[Report]", out: Path) -> None:
    suite = load_suite(SUITE)
    games, controls = list(suite.tasks), controls_of(suite.tasks)
    samples = {game: {each.entry.about.name: each.sample(game) for each in entries} for game in games}
    overall = overall_standings(entries, {g: samples[g] for g in games if g not in controls})
    ledgers = [(each.entry.about.name, explain_run(each.run).ledgers) for each in entries]
    judged = {game: {name: own.get((name, game), ()) for name, own in ledgers} for game in games}
    tables = {
        game: with_decisions(standings(entries, samples[game]), judged[game], samples[game]) for game in games
    }
    write_table(out / "data", "overall", standings_table({"all": overall}))
    write_table(out / "data", "games", standings_table(tables))
    write_table(out / "data", "episodes", episodes_table(entries))
    pages = Pages(out, entries, suite, reports)
    pages.write_index(overall, tables)
    pages.write_about()
    for game in games:
        pages.write_game(game, tables[game], samples[game])
        pages.write_beside(game)
    for each in entries:
        pages.write_entry(each, tables)
        for game in games:
            pages.write_episodes(each, game, judged[game][each.entry.about.name])
    for report in reports:
        write_table(out / "data", report.exhibit.name, report.data)
        pages.write_result(report)
    if reports:
        pages.write_results()
