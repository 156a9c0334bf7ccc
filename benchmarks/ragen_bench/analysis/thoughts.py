"""Check the thoughts of a run by the rules: how often their claims are true, and how agents differ.

Claims about later moves are true less often, and plans differ in length. So moves are shown by their position
in the plan, and agents are compared on levels where they planned the same number of moves.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Final

import pandas as pd

from ragen_agents.rollout import Episode
from ragen_agents.rollout.claims import MOVES, SHARES, CheckedThought, names_of
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.console.formats import Cells, Grid, grid_of, number, percent, percent_cell, percent_interval
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.run_table import Run, mean, place
from ragen_bench.runs.records import replay_spec
from ragen_bench.stats.intervals import Interval, bootstrap_mean, number_clusters, wilson_mean
from ragen_envs.game.claims import ClaimingFace
from ragen_envs.game.oracle import Action

Thoughts = Mapping[tuple[str, str], Mapping[int | None, tuple[str, Sequence[CheckedThought]]]]
"""Thoughts by agent and game: at each `place`, the level's key and the thought of each turn."""

_TITLES: Final = {
    "made": "replies\nwith\nclaims %", "per_thought": "claims per\nthought", "places": "places\ntrue %",
    **{f"move_{n}": f"move {n}\ntrue %" for n in range(1, MOVES + 1)}, "ends": "end\ntrue %",
    "others": "others\ntrue %", "plan": "answer =\nplan %",
}  # fmt: skip
_THING: Final = re.compile(r"place .+(?<!_low)(?<!_high)(?<!_n)")
_COLUMNS: Final = (
    "game", "agent", "other", "measure", "n", "agent_mean", "other_mean", "difference", "low", "high",
)  # fmt: skip
COMPARED: Final = ("places", "move_1", "moves", "ends", "others", "plan")

COMPARED_NOTE: Final = (
    "compared are the first replies on levels where both agents planned the same number of moves; see "
    "docs/thoughts.md for what the shares do and do not say"
)


def check_episode(episode: Episode) -> list[CheckedThought]:
    """Play an episode again and return its thoughts, checked; [] if the game cannot check thoughts."""
    env = make_env(replay_spec(episode))
    thoughts = []
    if isinstance(env.face, ClaimingFace):
        for turn in episode.turns:
            claims = env.claims(turn.reply, turn.cut_off)
            actions: tuple[Action, ...] = env.play(turn.reply, turn.cut_off).parsed.actions
            thoughts.append(CheckedThought(claims, actions))
    return thoughts


def check_run(run: Run, track: Track) -> Thoughts:
    """Return the checked thoughts of a run's episodes."""
    checked: dict[tuple[str, str], dict[int | None, tuple[str, Sequence[CheckedThought]]]] = {}
    for episode in track(run.episodes):
        if thoughts := check_episode(episode):
            of_game = checked.setdefault((episode.agent, episode.task), {})
            of_game[place(episode)] = episode.instance.key, thoughts
    return checked


def summarise_thoughts(checked: Thoughts) -> pd.DataFrame:
    """Return a row for each game and agent.

    Columns: ``game``, ``agent``, the number of ``replies``, and the mean of each measure of
    `ragen_agents.rollout.claims.CheckedThought` over the replies where it is defined, with its 95% interval
    ``_low`` and ``_high``, clustered by level, and their number ``_n``. What is not defined is nan.
    """
    rows = []
    games = list(dict.fromkeys(game for _, game in checked))
    for (agent, game), sample in sorted(checked.items(), key=lambda each: games.index(each[0][1])):
        measured = [(key, t.measures()) for key, thoughts in sample.values() for t in thoughts]
        row: dict[str, Any] = {"game": game, "agent": agent, "replies": len(measured)}
        for name in names_of(each for _, each in measured):
            defined = [(key, each[name]) for key, each in measured if name in each]
            values, keys = [value for _, value in defined], [key for key, _ in defined]
            share = _interval(values, keys, is_share=name != "per_thought")
            row |= {**share.columns(name), f"{name}_n": len(defined)}
        rows.append(row)
    return pd.DataFrame(rows)


def _interval(values: Sequence[float], keys: Sequence[str], is_share: bool) -> Interval:
    if len(set(keys)) < 2 or not is_share:
        return Interval(mean(values), math.nan, math.nan)
    return wilson_mean(values, clusters=number_clusters(keys))


def compare_thoughts(checked: Thoughts) -> pd.DataFrame:
    """Return a row for each game, pair of agents and measure that both have.

    Columns: ``game``, ``agent``, ``other``, ``measure``; the number ``n`` of pairs of first replies on levels
    where both planned the same number of moves; ``agent_mean`` and ``other_mean``; their ``difference`` with
    its 95% interval ``low`` and ``high``, a bootstrap over levels, or nan where all pairs are alike.
    """
    rows = []
    for (one, game), (other, same) in combinations(checked, 2):
        if game != same:
            continue
        first, second = checked[one, game], checked[other, game]
        pairs: dict[str, list[tuple[str, float, float]]] = {name: [] for name in COMPARED}
        for both in first.keys() & second.keys():
            (key, one_thoughts), (_, other_thoughts) = first[both], second[both]
            a, b = one_thoughts[0], other_thoughts[0]
            if len(a.moves) == len(b.moves):
                left, right = _with_moves(a), _with_moves(b)
                for name in left.keys() & right.keys() & pairs.keys():
                    pairs[name].append((key, left[name], right[name]))
        for name, values in pairs.items():
            if values:
                keys, a_values, b_values = map(list, zip(*sorted(values), strict=True))
                gaps = [a - b for a, b in zip(a_values, b_values, strict=True)]
                each = bootstrap_mean(gaps, resamples=2000, seed=0, clusters=number_clusters(keys))
                gap = each if each.low < each.high else each._replace(low=math.nan, high=math.nan)
                rows.append([game, one, other, name, len(values), mean(a_values), mean(b_values), *gap])
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _with_moves(thought: CheckedThought) -> dict[str, float]:
    decided = [float(move.true) for move in thought.moves if move.true is not None]
    return {**thought.measures(), **({"moves": mean(decided)} if decided else {})}


def thoughts_grid(data: pd.DataFrame) -> Grid:
    """Return the table of `summarise_thoughts` for people, without measures that nobody has."""
    shown = [name for name in SHARES if name in data and data[name].notna().any()]
    measures: dict[str, Cells] = {_TITLES[name]: partial(_cell, name) for name in shown}
    late = [_TITLES[name] for name in ("per_thought", *(f"move_{n}" for n in range(MOVES, 1, -1)))]
    return grid_of(
        data[data["made"] > 0],
        {"game": "game", "agent": "agent", **measures, "replies": "replies"},
        left=2,
        hideable=(*(title for title in late if title in measures), "replies"),
        intervals_hideable=True,
    )


def _cell(name: str, row: Mapping[Any, Any]) -> str:
    if name == "per_thought":
        return number(row[name], 1)
    cell = percent_cell(row, name)
    things = {each: share for each, share in row.items() if _THING.fullmatch(each) and share < 1}
    if name != "places" or not things:
        return cell
    least = min(things, key=things.__getitem__)
    return f"{cell} ({least.removeprefix('place ')} {percent(things[least])})"


def compared_grid(data: pd.DataFrame) -> Grid:
    """Return the table of `compare_thoughts` for people."""
    columns: dict[str, Cells] = {
        "game": "game",
        "agents": lambda row: f"{row['agent']} − {row['other']}",
        "measure": "measure",
        "difference, points\n[95% CI]": lambda row: percent_interval(
            row["difference"], row["low"], row["high"]
        ),
        "n": "n",
    }
    return grid_of(data, columns, left=3)
