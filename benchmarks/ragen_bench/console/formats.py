"""Print tables for people and programs: on the terminal, as Markdown, CSV and JSON."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from ragen_bench.console.escaping import escape_unprintable

if TYPE_CHECKING:
    import pandas as pd


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
_BREAK: Final = re.compile(r" (?=[\[(][-+\d]|against )")
"""Places where a number may be cut into lines: before its interval, and before what it is compared with."""
_INTERVAL: Final = re.compile(r"[ \n]\[[^]]*\]")


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

    def without(self, name: str) -> "Grid":
        """Return the table without a column."""
        place = self.header.index(name)
        rows = [[*row[:place], *row[place + 1 :]] for row in [self.header, *self.rows]]
        hideable = tuple(other for other in self.hideable if other != name)
        left = self.left - (place < self.left)
        return self._replace(header=rows[0], rows=rows[1:], left=left, hideable=hideable)

    def squeezed(self) -> "Grid":
        """Return the table with no more of each sentence than fits the narrowest column for it."""
        narrow = [name in self.wrapped for name in self.header]
        rows = [
            [cell[:_NARROWEST] if cut else cell for cell, cut in zip(row, narrow, strict=True)]
            for row in self.rows
        ]
        return self._replace(rows=rows)

    def stacked(self) -> "Grid":
        """Return the table with each interval on a line of its own."""
        rows = [
            [*row[: self.left], *(_BREAK.sub("\n", cell) for cell in row[self.left :])] for row in self.rows
        ]
        return self._replace(rows=rows)

    def without_intervals(self) -> "Grid":
        """Return the table without the intervals beside or below its numbers."""
        rows = [
            [*row[: self.left], *(_INTERVAL.sub("", cell) for cell in row[self.left :])] for row in self.rows
        ]
        return self._replace(rows=rows)

    def escaped(self) -> "Grid":
        """Return the table without characters that would reach the terminal as commands."""
        rows = [[_printable(cell) for cell in row] for row in self.rows]
        return self._replace(header=[_printable(name) for name in self.header], rows=rows)


def _printable(text: str) -> str:
    return escape_unprintable(text, kept="\n")


def print_table(
    data: "pd.DataFrame", grid: Grid, style: Format, title: str, notes: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None, wide: bool = False,
) -> None:  # fmt: skip
    """Print a table on standard output.

    Args:
        data: All numbers, for CSV and JSON.
        grid: The same for people.
        style: Which of them.
        title: Above the table.
        notes: Below it.
        facts: Further members of the JSON object.
        wide: Whether a narrow terminal is to show all columns too.
    """
    if style is Format.CSV:
        print(data.to_csv(index=False), end="")
        return
    if style is Format.JSON:
        members = {**(facts or {}), "notes": list(notes), "rows": plain_rows(data)}
        print(json.dumps(members, indent=1))
        return
    grid, notes = grid.escaped(), [_printable(note) for note in notes]
    if style is Format.MARKDOWN:
        print(markdown(grid), end="")
        print("".join(f"\n{note}\n" for note in notes), end="")
    else:
        _print_rich(grid, _printable(title), notes, wide)


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


def _print_rich(grid: Grid, title: str, notes: Sequence[str], wide: bool) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    hidden = []
    narrow = console.is_terminal and not wide and _least_width(console, grid) > console.width
    grid = grid._replace(tight=narrow)
    for name in grid.hideable if narrow else ():
        if _least_width(console, grid) > console.width:
            grid = grid.without(name)
            hidden.append(name.replace("\n", " "))
    if narrow and _least_width(console, grid) > console.width:
        grid = grid.stacked()
        if grid.intervals_hideable and _least_width(console, grid) > console.width:
            grid = grid.without_intervals()
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
        console.print(note if note.startswith("warning: ") else f"note: {note}")


def _least_width(console: Console, grid: Grid) -> int:
    return _width(console, grid.squeezed())


def _width(console: Console, grid: Grid) -> int:
    table = _rich_table(grid, title="")
    return Measurement.get(console, console.options.update(width=1000), table).maximum


def _rich_table(grid: Grid, title: str) -> Table:
    table = Table(
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


def score_grid(data: "pd.DataFrame") -> Grid:
    """Return the table of a run for people: the agents of each game between random play and the optimum."""
    header = [
        "game", "agent", "n", "success %\n[95% CI]", "return", "score", "valid\n%", "effective\n%",
        "turns", "tokens", "s per\nepisode",
    ]  # fmt: skip
    errors, decided = bool(data["errors"].any()), "regret" in data
    rows = []
    for _, game in data.groupby("game", sort=False):
        records = game.to_dict("records")
        played = [_score_row(row, errors, decided) for row in records]
        whole = max(records, key=lambda row: int(row["n"]))
        blank = len(played[0]) - _EXACT_COLUMNS
        rows += [
            *_exact_row(whole, "random", 0.0, blank),
            *played,
            *_exact_row(whole, "optimal", 100.0, blank),
        ]
    more = [
        *(["errors"] if errors else []),
        *(_DECISIONS if decided else []),
        *(_ATTEMPTS if "pass_at_k" in data else []),
    ]
    return Grid([*header, *more], rows, left=2, hideable=_HIDEABLE)


_HIDEABLE: Final = ("s per\nepisode", "tokens", "turns", "effective\n%", "return", "n")
_ATTEMPTS: Final = ("pass@k\n%", "pass^k\n%")
_DECISIONS: Final = ("luck-corrected %\n[95% CI]", "regret\nper turn", "blunders\n%")
_EXACT_COLUMNS: Final = 6
"""Columns of the table of a run that an exact expectation fills."""


def _exact_row(row: Mapping[Any, Any], kind: str, score: float, blank: int) -> list[list[str]]:
    """Return the row of an exact expectation, or none if it is not available."""
    success = row[f"{kind}_success"]
    if not math.isfinite(success):
        return []
    name = {"random": "random (exact)", "optimal": "optimum (exact)"}[kind]
    shown = [percent(success), number(row[f"{kind}_return"]), number(score, 1)]
    return [[row["game"], name, str(row["n"]), *shown, *[""] * blank]]


def _score_row(row: Mapping[Any, Any], errors: bool, decided: bool) -> list[str]:
    return [
        row["game"],
        row["agent"],
        str(row["n"]),
        percent_cell(row, "success"),
        number(row["mean_return"]),
        number(row["score"], 1),
        percent(row["valid"]),
        percent(row["effective"]),
        number(row["turns"]),
        number(row["reply_tokens"], 1),
        number(row["seconds"], 3),
        *([str(row["errors"])] if errors else []),
        *(_decision_cells(row) if decided else []),
        *([percent(row[name]) for name in ("pass_at_k", "pass_hat_k")] if "pass_at_k" in row else []),
    ]


def _decision_cells(row: Mapping[Any, Any]) -> list[str]:
    return [percent_cell(row, "corrected"), number(row["regret"], 3), percent(row["blunders"])]


def duration(seconds: float) -> str:
    """Return a time for people, such as 45 s, 12 min or 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
