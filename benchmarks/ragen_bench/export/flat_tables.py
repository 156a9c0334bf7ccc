"""The episodes and turns of a run as flat tables, in memory and as files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, get_args

import pandas as pd

from ragen_agents.rollout import Episode
from ragen_agents.run_files.files import new_folder, writing
from ragen_bench.config.suites import levels_title
from ragen_bench.evaluation.run_table import EXACT, Run
from ragen_envs.errors import RagenError, install_hint

__all__ = ["episode_rows", "turn_rows", "write_tables"]

TableFormat = Literal["parquet", "jsonl", "hf"]
_OF_EPISODE: Final = (
    "agent", "game", "level", "attempt", "env_id", "settings", "split", "key", "board", "success",
    "episode_return", "optimal_success", "optimal_return", "random_success", "random_return", "end", "error",
    "turns", "actions", "effective", "valid", "prompt_tokens", "reply_tokens", "seconds",
    "sampling_seed", "suite_version", "system",
)  # fmt: skip
_OF_TURN: Final = (
    "agent", "game", "level", "attempt", "turn", "user", "picture", "reply", "reasoning", "actions",
    "executed", "effective", "defects", "soft_defects", "rewards", "penalty", "reward", "cut_off",
    "prompt_tokens", "reply_tokens", "tokens_estimated", "seconds",
)  # fmt: skip
_COUNTS: Final = ("prompt_tokens", "reply_tokens")


def episode_rows(run: Run) -> pd.DataFrame:
    """Return a row for each episode of a run, by agent and game in the table's order, then by level.

    Columns: ``agent``, ``game``, ``level`` (its index in the pack) and ``attempt`` (from 0) identify it;
    ``env_id`` and ``settings`` (JSON) made its env; ``split``, ``key`` (equal for equivalent levels) and
    ``board`` (the level as text) say what was played; then ``success`` (<NA> where a game defines none),
    ``episode_return``, the exact ``optimal_success``, ``optimal_return``, ``random_success`` and
    ``random_return`` (nan if not available), ``end`` (such as "terminated", "budget" or "error") and
    ``error``; ``turns``, executed ``actions`` and how many were ``effective``; ``valid``, the share of
    replies without a defect; ``prompt_tokens`` and ``reply_tokens``, sums over the turns, <NA> where they
    are not known; ``seconds``; ``sampling_seed``, ``suite_version`` and the ``system`` message.
    """
    rows = [_episode_row(episode) for episode in _episodes(run)]
    types = {**dict.fromkeys(EXACT, "float64"), "success": "boolean"}
    return _frame(rows, _OF_EPISODE).astype(types)


def turn_rows(run: Run) -> pd.DataFrame:
    """Return a row for each turn of a run, in the order of `episode_rows`.

    Columns: ``agent``, ``game``, ``level`` and ``attempt`` as there; ``turn``, from 1; ``user``, the message
    that was replied to, with the hash of its ``picture`` or None; ``reply`` and ``reasoning``; lists of the
    ``actions`` that were read, those ``executed``, whether each was ``effective``, and its share of the
    ``rewards``; lists of ``defects`` and ``soft_defects``; ``penalty`` and ``reward``, the sum of all;
    ``cut_off``; ``prompt_tokens`` and ``reply_tokens``, <NA> where they are not known, and whether they are
    estimates (``tokens_estimated``); ``seconds``.
    """
    rows = [
        {**_key(episode), "turn": number, **{name: _plain(getattr(turn, name)) for name in _OF_TURN[5:]}}
        for episode in _episodes(run)
        for number, turn in enumerate(episode.turns, start=1)
    ]
    return _frame(rows, _OF_TURN)


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    data = pd.DataFrame(rows, columns=list(columns))
    return data.astype(dict.fromkeys(_COUNTS, "Int64"))


def _episodes(run: Run) -> Iterator[Episode]:
    for agent in run.config.agents:
        for task in run.config.suite.tasks:
            yield from run.samples.get((agent.name, task), {}).values()


def _key(episode: Episode) -> dict[str, Any]:
    return {
        "agent": episode.agent,
        "game": episode.task,
        "level": episode.instance.index,
        "attempt": episode.attempt,
    }


def _episode_row(episode: Episode) -> dict[str, Any]:
    turns = episode.turns
    same = {name: getattr(episode, name) for name in _OF_EPISODE if name in Episode.model_fields}
    return {
        **same,
        **_key(episode),
        "success": episode.success if episode.has_success else None,
        "settings": json.dumps(episode.env_kwargs),
        "split": episode.instance.split,
        "key": episode.instance.key,
        "board": episode.instance.level,
        "end": str(episode.end),
        "turns": len(turns),
        "actions": sum(len(turn.executed) for turn in turns),
        "effective": sum(sum(turn.effective) for turn in turns),
        "valid": sum(not turn.defects for turn in turns) / len(turns) if turns else None,
        **{name: _sum([getattr(turn, name) for turn in turns]) for name in _COUNTS},
        "seconds": sum(turn.seconds for turn in turns),
    }


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _json_lines(data: pd.DataFrame) -> str:
    """Return a table as JSON lines; pandas would round its numbers."""
    rows = data.astype(object).where(data.notna(), None).to_dict("records")
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _schema(data: pd.DataFrame) -> Any:
    """Return the schema of a table, the same whether or not a column has a value."""
    import pyarrow as pa

    values = {"effective": pa.bool_(), "rewards": pa.float64()}
    fields = []
    for field in pa.Schema.from_pandas(data, preserve_index=False):
        kind = field.type
        if pa.types.is_null(kind):
            kind = pa.string()
        elif pa.types.is_list(kind) and pa.types.is_null(kind.value_type):
            kind = pa.list_(values.get(field.name, pa.string()))
        fields.append(field.with_type(kind))
    return pa.schema(fields)


_CARD: Final = """---
configs:
- config_name: episodes
  data_files: episodes.parquet
  default: true
- config_name: turns
  data_files: turns.parquet
---

A row for each episode, and one for each turn, of a run of ragen bench with the suite {suite}.
"""


def write_tables(run: Run, out: Path, kind: TableFormat) -> list[Path]:
    """Write the episodes and turns of a run as files, in the place of older ones; return their paths.

    Args:
        run: The run.
        out: The folder.
        kind: "parquet", "jsonl", or "hf": Parquet files with a card by which ``datasets.load_dataset(out)``
            loads the episodes and ``load_dataset(out, "turns")`` the turns.

    Raises:
        RagenError: There is no such format, pyarrow is missing, or the folder cannot be written.
    """
    if kind not in get_args(TableFormat):
        raise RagenError(f"format is '{kind}', but must be {', '.join(get_args(TableFormat))}")
    own = {"README.md", *(f"{n}.{k}" for n in ("episodes", "turns") for k in ("jsonl", "parquet"))}
    if out.exists() and not (out.is_dir() and {path.name for path in out.iterdir()} <= own):
        raise RagenError(f"'{out}' contains something other than such tables; choose another --out")
    names = []
    try:
        with writing(out), new_folder(out) as new:
            for name, data in (("episodes", episode_rows(run)), ("turns", turn_rows(run))):
                names.append(f"{name}.{'jsonl' if kind == 'jsonl' else 'parquet'}")
                if kind == "jsonl":
                    (new / names[-1]).write_text(_json_lines(data), encoding="utf-8")
                else:
                    schema = _schema(data)
                    data.to_parquet(new / names[-1], engine="pyarrow", index=False, schema=schema)
            if kind == "hf":
                names.append("README.md")
                card = _CARD.format(suite=levels_title(run.config.suite))
                (new / names[-1]).write_text(card, encoding="utf-8")
    except ImportError as error:
        raise RagenError(f"Parquet needs pyarrow; {install_hint('leaderboard')}") from error
    return [out / name for name in names]
