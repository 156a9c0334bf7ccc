"""A DataFrame with the tables that show it, in notebooks and in a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import pandas as pd

from ragen_bench.console.formats import Grid, markdown, printable


class Table(pd.DataFrame):
    """A DataFrame of exact numbers that a notebook shows as the command line prints it.

    What is computed from it is an ordinary DataFrame.
    """

    _metadata = ["grids", "notes"]
    grids: Mapping[str, Grid]
    """Tables as shown, by title."""
    notes: Sequence[str]
    """Sentences below the table, such as which levels are missing."""

    @classmethod
    def of(cls, data: pd.DataFrame, grids: Mapping[str, Grid], notes: Sequence[str] = ()) -> "Table":
        """Return data with the tables that show it."""
        table = cls(data)
        table.grids, table.notes = grids, notes
        return table

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        grids = "".join(grid_html(title, grid) for title, grid in self.grids.items())
        return grids + "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes)

    def to_text(self) -> str:
        """Return the shown tables as Markdown."""
        grids = [f"{printable(title)}\n\n{markdown(grid.escaped())}" for title, grid in self.grids.items()]
        return "\n".join([*grids, *(f"{printable(note)}\n" for note in self.notes)])


def grid_html(title: str, grid: Grid) -> str:
    """Return a table as HTML."""
    rows = [f"<tr>{''.join(_cells('th', grid.header, grid.left))}</tr>"]
    rows += [f"<tr>{''.join(_cells('td', row, grid.left))}</tr>" for row in grid.rows]
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def _cells(tag: str, row: Sequence[str], left: int) -> Iterator[str]:
    for place, cell in enumerate(row):
        side = "left" if place < left else "right"
        text = escape(cell).replace("\n", "<br>")
        yield f'<{tag} style="text-align: {side}">{text}</{tag}>'
