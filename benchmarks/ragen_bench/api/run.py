"""A run as an object: its table, episodes and turns as DataFrames, and what the commands make of it."""

import base64
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Self

import pandas as pd

from ragen_agents.rollout import Episode
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.analysis.summary import (
    Explained,
    decision_grid,
    explain_run,
    summarise_ledgers,
    with_decisions,
)
from ragen_bench.analysis.thoughts import (
    COMPARED_NOTE,
    Thoughts,
    check_run,
    compare_thoughts,
    compared_grid,
    summarise_thoughts,
    thoughts_grid,
)
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.config.run_config import ENTRY, RunConfig
from ragen_bench.config.suites import levels_title
from ragen_bench.console.formats import score_grid
from ragen_bench.console.progress import bar
from ragen_bench.console.tables import Table
from ragen_bench.evaluation import run_table
from ragen_bench.evaluation.curves import curve_grid, success_curve
from ragen_bench.evaluation.notes import all_error_notes, run_notes
from ragen_bench.export.flat_tables import TableFormat, episode_rows, turn_rows, write_tables
from ragen_bench.leaderboard.store import read_explainable
from ragen_bench.runs.records import replay_spec
from ragen_bench.verification.run_verification import Verified, verify_run
from ragen_bench.viewer.run_pages import write_run_pages
from ragen_bench.viewer.templates import folder_server
from ragen_envs.errors import RagenError
from ragen_envs.game.text import GRID


class Run:
    """A run of ``ragen bench``, read when something of it is asked for.

    Args:
        folder: The run directory, or the folder of an entry of the leaderboard.
        stopped: Which limit ended it before all episodes were played, or None.
        checked: Whether its files are compared with their hashes.
    """

    def __init__(self, folder: str | Path, stopped: str | None = None, checked: bool = True) -> None:
        self.folder = Path(folder)
        self.stopped = stopped
        self._refuses_edits = checked

    @cached_property
    def records(self) -> run_table.Run:
        """The episodes as they are recorded, by agent and game."""
        return read_explainable(self.folder, self._refuses_edits)

    @property
    def config(self) -> RunConfig:
        """Everything that decided what was played."""
        return self.records.config

    @property
    def agents(self) -> list[str]:
        """Names of the agents, in the order of the table."""
        return [agent.name for agent in self.config.agents]

    def table(self) -> Table:
        """Return the table that ``ragen show`` prints: a row for each game and agent.

        Its percentages are shares in [0, 1] here; see `ragen_bench.evaluation.run_table.summarise` for the
        columns.
        """
        return self._table(run_table.summarise(self.records))

    def wide_table(self) -> Table:
        """Return the table of ``ragen show --wide``, with columns of `explain`."""
        data = with_decisions(run_table.summarise(self.records), self.records, self.explained)
        return self._table(data, self.explained.left_out)

    def _table(self, data: pd.DataFrame, left_out: Sequence[str] = ()) -> Table:
        notes = run_notes(self.records, left_out)
        stopped = [f"stopped early: {self.stopped}"] if self.stopped else []
        return Table.of(data, {self._title: score_grid(data)}, [*notes, *stopped])

    def curve(self, by: str = "solution_length") -> Table:
        """Return the success by an exact number of each level, and the 50% horizon of each agent.

        See `ragen_bench.evaluation.curves.success_curve` for the columns.
        """
        data, notes = success_curve(self.records, by)
        return Table.of(data, {f"Success by {by}, {self._title}": curve_grid(data)}, notes)

    def episodes(self) -> pd.DataFrame:
        """Return a row for each episode, (episodes, 27).

        See `ragen_bench.export.flat_tables.episode_rows` for the columns.
        """
        return episode_rows(self.records)

    def turns(self) -> pd.DataFrame:
        """Return a row for each turn of each episode.

        See `ragen_bench.export.flat_tables.turn_rows` for the columns.
        """
        return turn_rows(self.records)

    def episode(self, agent: str, game: str, level: int, attempt: int = 0) -> "EpisodeView":
        """Return one episode, which a notebook shows with a picture of each board.

        Raises:
            RagenError: There is no such episode.
        """
        for each in self.records.samples.get((agent, game), {}).values():
            if (each.instance.index, each.attempt) == (level, attempt):
                return EpisodeView(each)
        raise RagenError(
            f"'{self.folder}' has no episode of {agent} on level {level} of {game}, attempt {attempt}"
        )

    def explain(self) -> Table:
        """Return the cost of the agents' decisions, according to the exact oracle, as ``ragen explain`` does.

        There is a row for each game and agent; see `ragen_bench.analysis.summary.summarise_ledgers` for the
        columns.
        """
        read = self.records
        data = summarise_ledgers(read, self.explained)
        notes = [*own_level_notes(self.config.suite.tasks), *self.explained.left_out]
        notes += run_table.incomplete(read)
        notes += all_error_notes(read)
        return Table.of(data, {f"Decisions, {self.folder}": decision_grid(data)}, notes)

    @cached_property
    def explained(self) -> Explained:
        """The ledger of each episode; see `ragen_bench.analysis.ledger`."""
        return explain_run(self.records, bar("explaining"))

    def thoughts(self, compare: bool = False) -> Table:
        """Return the share of true claims in thoughts, as ``ragen explain --thoughts`` does.

        Args:
            compare: Return the differences between agents instead, from first replies on levels where both
                planned the same number of moves.

        See `ragen_bench.analysis.thoughts` for the columns: `summarise_thoughts` and `compare_thoughts`.

        Raises:
            RagenError: No game of the run can check thoughts.
        """
        missing = run_table.incomplete(self.records)
        if compare:
            differences = compare_thoughts(self._checked)
            grids = {f"Thoughts compared, {self.folder}": compared_grid(differences)}
            return Table.of(differences, grids, [COMPARED_NOTE, *missing])
        data = summarise_thoughts(self._checked)
        silent = dict.fromkeys(data["agent"][data.groupby("agent")["made"].transform("max") == 0])
        notes = [f"no claims in the thoughts of {', '.join(silent)}"] if silent else []
        grids = {f"Thoughts, {self.folder}": thoughts_grid(data)} if (data["made"] > 0).any() else {}
        return Table.of(data, grids, notes + missing)

    @cached_property
    def _checked(self) -> Thoughts:
        checked = check_run(self.records, bar("checking"))
        if not checked:
            raise RagenError(f"'{self.folder}' has no replies to games that can check thoughts")
        return checked

    def view(self, out: str | Path | None = None, port: int = 0) -> "Pages":
        """Write pages with every episode, and serve them on this machine until the result is closed.

        Args:
            out: Folder of the pages; a temporary one by default.
            port: Port of the server; 0 for any free one.
        """
        temporary = None if out else tempfile.TemporaryDirectory(prefix="ragen-view-")
        folder = Path(out or "") if temporary is None else Path(temporary.name) / "site"
        write_run_pages([self.records], folder, bar("judging"))
        return Pages(folder, port, temporary)

    def verify(self) -> Verified:
        """Replay every episode and recompute every number, as ``ragen verify`` does.

        Raises:
            MismatchError: Something differs; the message names file, line, episode, turn and field.
            RagenError: The run cannot be read, or is an entry of the leaderboard.
        """
        return verify_run(self.folder, bar("verifying"))

    def export(self, kind: TableFormat = "parquet", out: str | Path | None = None) -> list[Path]:
        """Write ``episodes()`` and ``turns()`` as files, and return their paths.

        Args:
            kind: "parquet", "jsonl", or "hf": a folder that `datasets.load_dataset` reads.
            out: Folder of the files; by default one in the run directory, named after the kind.

        Raises:
            RagenError: The run is an entry of the leaderboard and ``out`` is not given, or the files cannot
                be written.
        """
        if out is None and (self.folder / ENTRY).is_file():
            raise RagenError(f"'{self.folder}' is an entry of the leaderboard; name another folder (out=...)")
        return write_tables(self.records, Path(out) if out else self.folder / kind, kind)

    @property
    def _title(self) -> str:
        return f"{levels_title(self.config.suite)}, {self.folder}"

    def __repr__(self) -> str:
        played = len(self.config.keys) - self.records.missing
        return f"<Run {self.folder}: {', '.join(self.agents)}; {played} of {len(self.config.keys)} episodes>"

    def __str__(self) -> str:
        return self.table().to_text()

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Pages:
    """Pages that are served on this machine; a context manager.

    Raises:
        RagenError: The port cannot be used.
    """

    def __init__(
        self, folder: Path, port: int, temporary: tempfile.TemporaryDirectory[str] | None = None
    ) -> None:
        self.folder = folder
        self._temporary = temporary
        self._server = folder_server(folder, port)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Pages {self.url}>"

    def _repr_html_(self) -> str:
        url = escape(self.url)
        return f'<a href="{url}">{url}</a><br><iframe src="{url}" width="100%" height="600"></iframe>'


def load(folder: str | Path, checked: bool = True) -> Run:
    """Return the run in a directory, or an entry of the leaderboard.

    Args:
        folder: The directory.
        checked: Whether files that were edited after they were written are refused.

    Raises:
        RagenError: It is neither, corrupt, or edited.
    """
    run = Run(folder, checked=checked)
    _ = run.records
    return run


@dataclass(frozen=True, repr=False)
class EpisodeView:
    """An episode, turn by turn: printed as the conversation, in a notebook with a board for each turn."""

    record: Episode
    """The episode as it is recorded."""

    @property
    def _title(self) -> str:
        episode = self.record
        solved = "solved" if episode.success else "not solved" if episode.has_success else "played"
        return (
            f"{episode.task}, level {episode.instance.index}, {episode.agent}: {solved} ({episode.end}), "
            f"return {episode.episode_return:.2f}"
        )

    def __repr__(self) -> str:
        return f"<EpisodeView {self._title}>"

    def __str__(self) -> str:
        episode = self.record
        turns = [
            f"--- turn {number} ---\n{turn.user}\n--- reply ---\n{turn.reply}"
            for number, turn in enumerate(episode.turns, start=1)
        ]
        return "\n\n".join([self._title, *turns, f"--- end ---\n{episode.error or episode.closing}"])

    def _repr_html_(self) -> str:
        episode, env = self.record, make_env(replay_spec(self.record))
        game: Any = env.unwrapped
        parts = [f"<b>{escape(self._title)}</b><table>"]
        for number, turn in enumerate(episode.turns, start=1):
            parts.append(
                f'<tr><td>{number}</td><td>{_board(env)}</td><td style="text-align: left">'
                f"<pre>{escape(turn.reply)}</pre>"
                f"<small>played: {escape(' || '.join(turn.executed) or 'nothing')}</small></td></tr>"
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
