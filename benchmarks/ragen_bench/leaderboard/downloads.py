"""The numbers behind the pages, as CSV and Parquet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from ragen_bench.leaderboard.standings import Standing
from ragen_bench.leaderboard.store import StoredEntry

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
    found = [
        {"game": game, "entry": row.name, "title": row.title, "rank": row.rank, **row.row}
        for game, rows in tables.items()
        for row in rows
    ]
    columns = None if found else ["game", "entry", "title", "rank"]
    return pd.DataFrame(found, columns=columns).astype({"rank": "Int64"})


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
