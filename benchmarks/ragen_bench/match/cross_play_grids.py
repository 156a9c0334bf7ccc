"""The tables of a run of matches for people: cross-play, by seat, and replies."""

from typing import Any

import pandas as pd

from ragen_bench.console.formats import Grid, interval, number, percent_interval
from ragen_bench.match.match_table import ALL


def success_cell(row: dict[Any, Any]) -> str:
    """Return a success rate with its interval, in percent."""
    return percent_interval(row["success"], row["success_low"], row["success_high"])


def return_cell(row: dict[Any, Any]) -> str:
    """Return a mean return with its interval."""
    return interval(row["mean_return"], row["return_low"], row["return_high"])


def cross_play_grid(data: pd.DataFrame, measure: str) -> Grid:
    """Return the self-play and cross-play table: a row for each agent, a column for each other agent.

    Args:
        data: The table of ``summarise_matches``.
        measure: "success" or "return".
    """
    cell = success_cell if measure == "success" else return_cell
    means = data[data["seat"] == ALL]
    return _pivot(means, ["game", "agent"], "others", cell, "with ")


def seat_grid(data: pd.DataFrame) -> Grid:
    """Return the success on each seat: a row for each agent and other agent, a column for each seat."""
    return _pivot(data[data["seat"] != ALL], ["game", "agent", "others"], "seat", success_cell, "")


def reply_grid(data: pd.DataFrame) -> Grid:
    """Return how each agent replied: a row for each agent and other agent."""
    means = data[data["seat"] == ALL]
    header = ["game", "agent", "others", "levels", "valid\n%", "turns", "tokens", "errors"]
    rows = [
        [
            row["game"],
            row["agent"],
            row["others"],
            str(row["n"]),
            number(100 * row["valid"], 1),
            number(row["turns"]),
            number(row["reply_tokens"], 1),
            str(row["errors"]),
        ]
        for row in means.to_dict("records")
    ]
    return Grid(header, rows, left=3, hideable=("tokens", "turns", "levels"))


def _pivot(data: pd.DataFrame, names: list[str], column: str, cell: Any, prefix: str) -> Grid:
    columns = list(dict.fromkeys(data[column]))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in data.to_dict("records"):
        cells.setdefault(tuple(row[name] for name in names), {})[row[column]] = cell(row)
    rows = [[*key, *(found.get(value, "-") for value in columns)] for key, found in cells.items()]
    header = [*names, *(f"{prefix}{value}" for value in columns)]
    return Grid(header, rows, left=len(names), intervals_hideable=True)
