"""Print tables for people and programs: on the terminal, as Markdown, CSV and JSON."""

import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable

from ragen_bench.console.escaping import escape_unprintable

if TYPE_CHECKING:
    import pandas as pd

    from ragen_bench.console.tables import Table


class Format(StrEnum):
    """Format of a printed table."""

    TABLE = "table"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


_EXACT_DIGITS: Final = 9
"""Digits behind the point of which a mean is sure."""
_NARROWEST: Final = 24
"""Characters of the narrowest column of sentences."""
_BREAK: Final = re.compile(r" (?=[\[(][-+\d]|\([a-z]+ \d|against )")
"""Places where a number may be cut into lines: before its interval, and before what it is compared with."""
_INTERVAL: Final = re.compile(r"[ \n]\[[^]]*\]")
"""An interval beside or below its number."""


class Grid(NamedTuple):
    """A table as text, for eyes."""

    header: list[str]
    rows: list[list[str]]
    left: int
    """Number of columns that are names, aligned left."""
    hideable: tuple[str, ...] = ()
    """Columns that a narrow terminal leaves out, the first to go first."""
    wrapped: tuple[str, ...] = ()
    """Columns of sentences, which a narrow terminal breaks into lines before it leaves columns out."""
    grouped: bool = True
    """Whether rows that begin alike are one group, whose name is shown once."""
    intervals_hideable: bool = False
    """Whether a terminal that is still too narrow then leaves the intervals out."""
    tight: bool = False
    """Whether columns have less space between them."""

    def without(self, *names: str) -> "Grid":
        """Return the table without some columns."""
        kept = [place for place, name in enumerate(self.header) if name not in names]
        header, *rows = ([row[place] for place in kept] for row in [self.header, *self.rows])
        return self._replace(header=header, rows=rows, left=sum(place < self.left for place in kept))

    def squeezed(self) -> "Grid":
        """Return the table with no more of each sentence than fits the narrowest column for it."""
        narrow = [name in self.wrapped for name in self.header]
        rows = [
            [cell[:_NARROWEST] if cut else cell for cell, cut in zip(row, narrow, strict=True)]
            for row in self.rows
        ]
        return self._replace(rows=rows)

    def substituted(self, pattern: re.Pattern[str], text: str) -> "Grid":
        """Return the table with a text in place of what a pattern finds in the cells beside the names."""
        left = self.left
        rows = [[*row[:left], *(pattern.sub(text, cell) for cell in row[left:])] for row in self.rows]
        return self._replace(rows=rows)

    def escaped(self) -> "Grid":
        """Return the table without characters that would reach the terminal as commands."""
        rows = [[printable(cell) for cell in row] for row in self.rows]
        return self._replace(header=[printable(name) for name in self.header], rows=rows)


def printable(text: str) -> str:
    """Return a text without characters that would reach the terminal as commands."""
    return escape_unprintable(text, kept="\n")


def print_table(
    table: "Table", style: Format, facts: Mapping[str, Any] | None = None, wide: bool = False
) -> None:
    """Print a table on standard output; ``facts`` are further members of the JSON object."""
    if style is Format.CSV:
        print(table.to_csv(index=False), end="")
    elif style is Format.JSON:
        members = {**(facts or {}), "notes": list(table.notes), "rows": plain_rows(table)}
        print(json.dumps(members, indent=1))
    elif style is Format.MARKDOWN:
        print(table.to_text(), end="")
    else:
        _print_rich(table, wide)


def plain_rows(data: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows without nan and infinities, which JSON does not have."""
    return [
        {
            str(name): None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in data.to_dict("records")
    ]


def markdown(grid: Grid) -> str:
    """Return a table as Markdown."""
    marks = [":--" if i < grid.left else "--:" for i in range(len(grid.header))]
    lines = [[name.replace("\n", " ") for name in grid.header], marks, *grid.rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _print_rich(table: "Table", wide: bool) -> None:
    for number, (title, grid) in enumerate(table.grids.items(), start=1):
        if number > 1:
            print()
        notes = [printable(note) for note in table.notes] if number == len(table.grids) else []
        _print_grid(grid.escaped(), printable(title), notes, wide)
    if not table.grids:
        for note in table.notes:
            print(f"note: {printable(note)}")


def _print_grid(grid: Grid, title: str, notes: Sequence[str], wide: bool) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    hidden = []
    narrow = console.is_terminal and not wide and _least_width(console, grid) > console.width
    grid = grid._replace(tight=narrow)
    if narrow:
        left_out = _columns_to_hide(console, grid)
        grid = grid.without(*left_out)
        hidden = [name.replace("\n", " ") for name in left_out]
    if narrow and _least_width(console, grid) > console.width:
        grid = grid.substituted(_BREAK, "\n")
        if grid.intervals_hideable and _least_width(console, grid) > console.width:
            grid = grid.substituted(_INTERVAL, "")
            hidden.append("intervals")
    if hidden:
        hint = "--wide or --format markdown shows them"
        notes = [*notes, f"left out at {console.width} columns: {', '.join(hidden)}; {hint}"]
    # Long lines are better than numbers that are cut off.
    least = _least_width(console, grid) if console.is_terminal else _width(console, grid)
    width = console.width
    console.width = max(width, least)
    console.print(_rich_table(grid, title))
    console.width = width
    for note in notes:
        line = note if note.startswith("warning: ") else f"note: {note}"
        for part in line.split("\n"):
            whole = textwrap.fill(part, console.width, break_long_words=False, break_on_hyphens=False)
            console.print(whole, soft_wrap=True)  # paths stay whole


def _columns_to_hide(console: Console, grid: Grid) -> list[str]:
    """Return the hideable columns, the first ones first, without which a table fits."""
    hidden: list[str] = []
    for name in grid.hideable:
        if name in grid.header and _least_width(console, grid.without(*hidden)) > console.width:
            hidden.append(name)
    for name in reversed(hidden):
        fewer = [other for other in hidden if other != name]
        if _least_width(console, grid.without(*fewer)) <= console.width:
            hidden = fewer
    return hidden


def _least_width(console: Console, grid: Grid) -> int:
    return _width(console, grid.squeezed())


def _width(console: Console, grid: Grid) -> int:
    table = _rich_table(grid, title="")
    return Measurement.get(console, console.options.update(width=1000), table).maximum


def _rich_table(grid: Grid, title: str) -> RichTable:
    table = RichTable(
        title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False,
        show_edge=False, collapse_padding=grid.tight,
    )  # fmt: skip
    for i, name in enumerate(grid.header):
        side: Literal["left", "right"] = "left" if i < grid.left or name in grid.wrapped else "right"
        table.add_column(name, justify=side, no_wrap=name not in grid.wrapped)
    grouped = grid.grouped and len({row[0] for row in grid.rows}) < len(grid.rows)
    last = None
    for row in grid.rows:
        if grouped and last is not None and row[0] != last:
            table.add_section()
        table.add_row(row[0] if row[0] != last or not grid.grouped else "", *row[1:])
        last = row[0]
    return table


def number(value: float, digits: int = 2) -> str:
    """Return a number, or a dash if it is not defined.

    Numbers that differ only by the order in which they were summed look alike.
    """
    return f"{round(value, _EXACT_DIGITS):z.{digits}f}" if math.isfinite(value) else "-"


def percent(value: float) -> str:
    """Return a share as percent, or a dash if it is not defined."""
    return number(100 * value, 1)


def interval(estimate: float, low: float, high: float, digits: int = 2) -> str:
    """Return a number with its interval; a dash stands for what is not defined."""
    if not math.isfinite(estimate):
        return "-"
    known = math.isfinite(low) or math.isfinite(high)
    bounds = f"{number(low, digits)}, {number(high, digits)}" if known else "-"
    return f"{number(estimate, digits)} [{bounds}]"


def percent_interval(estimate: float, low: float, high: float) -> str:
    """Return a share with its interval, in percent."""
    return interval(100 * estimate, 100 * low, 100 * high, 1)


def percent_cell(row: Mapping[Any, Any], name: str) -> str:
    """Format the proportion in the columns of `ragen_bench.stats.Interval.columns` in percent."""
    return percent_interval(row[name], row[f"{name}_low"], row[f"{name}_high"])


Cells = str | Callable[[Mapping[Any, Any]], str]
"""A column of a table for people: a field of the rows, or the text that is made of a row."""


def grid_of(data: "pd.DataFrame", columns: Mapping[str, Cells], left: int, **options: Any) -> Grid:
    """Return a table for people with these columns; ``options`` are the other fields of `Grid`."""
    rows = [
        [str(row[cell]) if isinstance(cell, str) else cell(row) for cell in columns.values()]
        for row in data.to_dict("records")
    ]
    return Grid(list(columns), rows, left, **options)


def numbers(name: str, digits: int = 2) -> Cells:
    """Return the column of a field's numbers."""
    return lambda row: number(row[name], digits)


def percents(name: str) -> Cells:
    """Return the column of a field's shares."""
    return lambda row: percent(row[name])


def percent_cells(name: str) -> Cells:
    """Return the column of the shares with intervals of `percent_cell`."""
    return lambda row: percent_cell(row, name)


def score_grid(data: "pd.DataFrame") -> Grid:
    """Return the table of a run for people: the agents of each game between random play and the optimum."""
    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "n": "n", "success %\n[95% CI]": percent_cells("success"),
        "return": numbers("mean_return"), "score": numbers("score", 1), "valid\n%": percents("valid"),
        "effective\n%": percents("effective"), "turns": numbers("turns"),
        "tokens": numbers("reply_tokens", 1), "s per\nepisode": numbers("seconds", 3),
    }  # fmt: skip
    if data["errors"].any():
        columns["errors"] = "errors"
    if "regret" in data:
        columns["luck-corrected %\n[95% CI]"] = percent_cells("corrected")
        columns |= {"regret\nper turn": numbers("regret", 3), "blunders\n%": percents("blunders")}
    if "pass_at_k" in data:
        columns |= {"pass@k\n%": percents("pass_at_k"), "pass^k\n%": percents("pass_hat_k")}
    rows = []
    for _, game in data.groupby("game", sort=False):
        whole = max(game.to_dict("records"), key=lambda row: int(row["n"]))
        exact = [_exact_row(whole, kind, len(columns)) for kind in _EXACT]
        rows += [*exact[0], *grid_of(game, columns, 2).rows, *exact[1]]
    return Grid(list(columns), rows, left=2, hideable=_HIDEABLE)


_HIDEABLE: Final = (
    "s per\nepisode", "tokens", "turns", "effective\n%", "return", "n", "pass^k\n%", "pass@k\n%",
)  # fmt: skip
_EXACT: Final = {"random": ("random (exact)", 0.0), "optimal": ("optimum (exact)", 100.0)}
"""Names and scores of the rows of exact expectations."""


def _exact_row(row: Mapping[Any, Any], kind: str, width: int) -> list[list[str]]:
    success, (name, score) = row[f"{kind}_success"], _EXACT[kind]
    if not math.isfinite(success):
        return []
    shown = [percent(success), number(row[f"{kind}_return"]), number(score, 1)]
    cells = [row["game"], name, str(row["n"]), *shown]
    return [cells + [""] * (width - len(cells))]


def duration(seconds: float) -> str:
    """Return a time for people, such as 45 s, 12 min or 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
