"""DataFrames and episodes as a notebook shows them."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from ragen_agents.rollout import Episode
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.console.formats import Grid, markdown
from ragen_bench.runs.records import replay_spec
from ragen_envs.game.text import GRID


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
    def of(cls, data: pd.DataFrame, grids: Mapping[str, Grid], notes: Sequence[str]) -> "Table":
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
        grids = [f"{title}\n\n{markdown(grid)}" for title, grid in self.grids.items()]
        return "\n".join([*grids, *(f"{note}\n" for note in self.notes)])


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


def episode_html(episode: Episode) -> str:
    """Return an episode as HTML: the board before each turn, in a picture if the game has one, and the reply.

    Raises:
        RagenError: The record does not replay.
    """
    env = make_env(replay_spec(episode))
    game: Any = env.unwrapped
    solved = "solved" if episode.success else "not solved" if episode.has_success else "played"
    parts = [
        f"<b>{escape(episode.task)}</b>, level {episode.instance.index}, {escape(episode.agent)}: {solved} "
        f"({episode.end}), return {episode.episode_return:.2f}<table>"
    ]
    for number, turn in enumerate(episode.turns, start=1):
        parts.append(
            f'<tr><td>{number}</td><td>{_board(env)}</td><td style="text-align: left">'
            f"<pre>{escape(turn.reply)}</pre>"
            f"<small>played: {escape(' '.join(turn.executed) or 'nothing')}</small></td></tr>"
        )
        for name in turn.executed:
            game.act(env.action_of(name))
    closing = escape(episode.error or episode.closing)
    parts.append(f"<tr><td></td><td>{_board(env)}</td><td><pre>{closing}</pre></td></tr></table>")
    return "".join(parts)


def _board(env: Any) -> str:
    picture = env.unwrapped._repr_png_()
    if picture is not None:
        return f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    board = env.face.observation(env.unwrapped, GRID, env.face.vocabularies["standard"])
    return f"<pre>{escape(board)}</pre>"
