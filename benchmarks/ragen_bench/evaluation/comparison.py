"""Compare two agents on the instances that both have played."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import pandas as pd

from ragen_agents.policies import CONTROLS
from ragen_agents.policies.endpoint.settings import ADDRESSES
from ragen_agents.rollout import Episode
from ragen_bench.config.own_levels import own_level_notes
from ragen_bench.console.formats import Cells, Grid, grid_of, interval, number
from ragen_bench.evaluation.notes import error_notes
from ragen_bench.evaluation.run_table import Run, Sample, level_clusters, read_run, repeated_levels_note
from ragen_bench.stats.intervals import bounds_of_several
from ragen_bench.stats.paired import ALPHA, PairedResult, compare_rates, holm, paired_bootstrap
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.errors import RagenError
from ragen_envs.registration import creator_of, game_of

__all__ = ["Side", "compare_sides", "read_side"]

_NOT_SET: Final = object()
Pair = list[tuple[Episode, Episode]]
"""Episodes of the same instance."""


class Side(NamedTuple):
    """One side of a comparison: an agent of a run."""

    run: Run
    agent: str

    def __str__(self) -> str:
        return f"{self.run.folder}:{self.agent}"


def pair_episodes(a: Side, b: Side, task: str) -> Pair:
    """Return the episodes of the instances of a task that both sides have played.

    Raises:
        RagenError: The runs played the task on another split, under other settings, or other levels of it.
    """
    first: Sample = a.run.samples.get((a.agent, task), {})
    second: Sample = b.run.samples.get((b.agent, task), {})
    shared = [index for index in first if index in second]
    if not shared:
        return []
    differs = _differing(a.run, b.run, task)
    if differs:
        raise RagenError(f"'{task}' was played under different settings in the two runs: {differs}")
    pairs = [(first[index], second[index]) for index in shared]
    for one, other in pairs:
        if one.instance != other.instance:
            raise RagenError(
                f"'{task}' instance {one.instance.index} is another level in {a.run.folder} than in "
                f"{b.run.folder}; run ragen verify on both to find out which is wrong"
            )
    return pairs


def _differing(a: Run, b: Run, task: str) -> str:
    """Describe the difference of two tasks, or return ""; a setting that a task omits is that of its id."""
    ours, theirs = (run.config.suite.tasks[task] for run in (a, b))
    if ours.env != theirs.env:
        return f"env is {ours.env} in {a.folder} and {theirs.env} in {b.folder}"
    splits = [task.split or run.config.suite.split for task, run in ((ours, a), (theirs, b))]
    if splits[0] != splits[1]:
        return f"split is {splits[0]} in {a.folder} and {splits[1]} in {b.folder}"
    first, second = ({**_defaults(ours.env), **task.settings} for task in (ours, theirs))
    return "; ".join(_differences(first, second, a.folder, b.folder))


def _defaults(env: str) -> dict[str, Any]:
    """Return the settings of a text id: of the conversation, of the game, and of both ids."""
    settings = asdict(ConversationSettings())
    text = gym.registry.get(env)
    if text is None:  # of a package that is not imported
        return settings
    game = gym.registry.get(game_of(env) or env, text)
    parameters = inspect.signature(creator_of(game) or dict).parameters.values()
    own = {each.name: each.default for each in parameters if each.default is not each.empty}
    return {**settings, **own, **game.kwargs, **text.kwargs}


def _differences(
    first: Mapping[str, Any], second: Mapping[str, Any], a: str | Path, b: str | Path
) -> Iterator[str]:
    for name in dict.fromkeys([*first, *second]):
        one, other = (settings.get(name, _NOT_SET) for settings in (first, second))
        if one != other:
            yield f"{name} is {_shown(one)} in {a} and {_shown(other)} in {b}"


def _shown(setting: Any) -> str:
    return "not set" if setting is _NOT_SET else f"{setting!r:.60}"


_UNDECIDED: Final = "undecided"
"""The verdict on a pair whose p-value decides nothing."""
_FEW: Final = 32
"""Fewer levels than this can only show large differences."""


def read_side(text: str, other: Side | None = None, checked: bool = True) -> Side:
    """Return the side that ``RUN`` or ``RUN:AGENT`` stands for; ``:AGENT`` is in the other's run.

    Without an agent it is the only one of the run that is not a control, or the only one.

    Raises:
        RagenError: There is no such run or agent, or the run has several.
    """
    folder, agent = _split(text)
    if folder is None:
        if other is None:
            raise RagenError(f"'{text}' has no run; write RUN:AGENT")
        run = other.run
    else:
        run = read_run(folder, checked)
    return side_of(run, agent, text)


def side_of(run: Run, agent: str | None, text: str) -> Side:
    """Return the side that an agent of a run is, or its only one; errors call it by a text."""
    names = [entry.name for entry in run.config.agents]
    if agent is None:
        candidates = [name for name in names if name not in CONTROLS] or names
        if len(candidates) != 1:
            raise RagenError(f"'{text}' has the agents {', '.join(names)}; write {text}:AGENT")
        agent = candidates[0]
    if agent not in names:
        raise RagenError(f"unknown agent '{agent}'; '{run.folder}' has {', '.join(names)}")
    return Side(run, agent)


def _split(text: str) -> tuple[Path | None, str | None]:
    """Split at the first colon after which a directory ends: agents may have colons too."""
    if Path(text).is_dir():
        return Path(text), None
    places = [i for i, character in enumerate(text) if character == ":"]
    for place in places:
        folder = text[:place]
        if not folder or Path(folder).is_dir():
            return (Path(folder) if folder else None), text[place + 1 :]
    raise RagenError(f"there is no run directory '{text.split(':')[0]}'")


def compare_sides(a: Side, b: Side) -> tuple[pd.DataFrame, list[str]]:
    """Compare two sides, game by game.

    Success is compared by the exact McNemar test and return by a sign-flip test, with an interval from the
    paired bootstrap, both on the instances that both have, and by level where levels repeat; p-values are
    Holm-adjusted over the games, for each measure.

    Returns:
        A row for each game and measure ("success", "return") with the columns ``game``,
        ``measure``, ``n``, ``a``, ``b`` (means), ``difference`` (a - b) with ``low`` and ``high``,
        ``a_more`` and ``b_more`` (instances), ``p``, ``p_holm``, ``verdict``; and notes. Bounds that are
        not defined are nan.

    Raises:
        RagenError: Both sides are the same; the runs have no game in common; or a game was played on
            another split or under other settings.
    """
    if a.agent == b.agent and a.run.folder.resolve() == b.run.folder.resolve():
        raise RagenError(f"both sides are {a}; name two agents, or two runs")
    pairs = {task: pair for task in a.run.config.suite.tasks if (pair := pair_episodes(a, b, task))}
    if not pairs:
        raise RagenError(f"{a} and {b} have no instance in common")
    scored = {task: pair for task, pair in pairs.items() if any(a.has_success for a, _ in pair)}
    rows = [*_rows(scored, "success"), *_rows(pairs, "return")]
    own = own_level_notes({task: a.run.config.suite.tasks[task] for task in pairs})
    return pd.DataFrame(rows), [*own, *_notes(a, b, pairs)]


def _rows(pairs: dict[str, Pair], measure: str) -> list[dict[str, Any]]:
    results = {task: _test(pair, measure) for task, pair in pairs.items()}
    adjusted = holm([result.p_value for _, _, result in results.values()])
    return [
        {
            "game": task,
            "measure": measure,
            "n": result.n,
            "a": mean_a,
            "b": mean_b,
            "difference": result.difference.estimate,
            "low": result.difference.low,
            "high": result.difference.high,
            "a_more": result.a_better,
            "b_more": result.b_better,
            "p": result.p_value,
            "p_holm": float(p),
            "verdict": _verdict(result.difference.estimate, float(p)),
        }
        for (task, (mean_a, mean_b, result)), p in zip(results.items(), adjusted, strict=True)
    ]


def _test(pair: Pair, measure: str) -> tuple[float, float, PairedResult]:
    clusters = level_clusters(one for one, _ in pair)
    if measure == "success":
        a = np.array([one.success for one, _ in pair])
        b = np.array([other.success for _, other in pair])
        return float(a.mean()), float(b.mean()), compare_rates(a, b, clusters)
    a = np.array([one.episode_return for one, _ in pair])
    b = np.array([other.episode_return for _, other in pair])
    result = paired_bootstrap(a, b, seed=0, clusters=clusters)
    levels = len({one.instance.key for one, _ in pair})
    difference = bounds_of_several(result.difference, levels)
    return float(a.mean()), float(b.mean()), result._replace(difference=difference)


def _verdict(difference: float, p: float) -> str:
    if p > ALPHA:
        return _UNDECIDED
    return "A better" if difference > 0 else "B better"


def _notes(a: Side, b: Side, pairs: Mapping[str, Pair]) -> list[str]:
    levels = min(len({one.instance.key for one, _ in pair}) for pair in pairs.values())
    ours, theirs = (side.run.config.suite.tasks for side in (a, b))
    alone = [task for task in {**ours, **theirs} if (task in ours) != (task in theirs)]
    apart = [task for task in ours if task in theirs and task not in pairs]
    undecided = f"{_UNDECIDED}: Holm-adjusted p above {ALPHA:g}; the intervals are not adjusted"
    notes = [f"A = {a}", f"B = {b}", undecided]
    if levels < _FEW:
        few = f"{levels} level{'s' if levels != 1 else ''} can only show large differences"
        notes.append(f"{few} (ragen power --effect 10pp --seed-sd 0pp)")
    notes += repeated_levels_note(
        {task: [one.instance.key for one, _ in pair] for task, pair in pairs.items()},
        "intervals and tests",
        "episodes",
    )
    notes += _attempts_note(a, b)
    if alone:
        notes.append(f"games of only one side: {', '.join(alone)}")
    if apart:
        notes.append(f"games of which no level has been played by both: {', '.join(apart)}")
    if differs := _decoding_differences(a, b):
        notes.append(f"the runs have different decoding settings: {differs}")
    folders = " ".join(dict.fromkeys(str(side.run.folder) for side in (a, b)))
    notes.append(f"to see both agents level by level: ragen view {folders}")
    for name, side, place in (("A", a, 0), ("B", b, 1)):
        played = [pair[place] for task in pairs.values() for pair in task]
        notes += [f"{name}: {note}" for note in error_notes(side.agent, played)]
    unfinished = dict.fromkeys(side.run.folder for side in (a, b) if side.run.missing)
    notes += [f"{folder} is unfinished" for folder in unfinished]
    return notes


def _attempts_note(a: Side, b: Side) -> list[str]:
    ours, theirs = a.run.config.attempts, b.run.config.attempts
    if ours == theirs:
        return []
    fewest = min(ours, theirs)
    used = "the first is" if fewest == 1 else f"the first {fewest} are"
    counts = f"A has {ours} attempt{'s' if ours > 1 else ''} at each level and B {theirs}"
    return [f"{counts}: only {used} compared"]


def _decoding_differences(a: Side, b: Side) -> str:
    """Return the decoding settings that differ between two sides in words, or ""; controls have none."""
    if not CONTROLS.keys().isdisjoint((a.agent, b.agent)):
        return ""
    first, second = ({**side.run.config.suite.sampling.model_dump(), **_request(side)} for side in (a, b))
    return ", ".join(_differences(first, second, "A", "B"))


def _request(side: Side) -> dict[str, Any]:
    agent = next(agent for agent in side.run.config.agents if agent.name == side.agent)
    settings = agent.asked.model_dump(exclude=ADDRESSES)
    body = settings.pop("extra_body")
    return {**settings, **{f"extra_body.{name}": value for name, value in body.items()}}


def comparison_grid(data: pd.DataFrame, measure: str) -> Grid:
    """Return the rows of a comparison that are of one measure, "success" or "return", for people."""
    scale, digits, unit = (100, 1, " %") if measure == "success" else (1, 2, "")

    def difference(row: Mapping[Any, Any]) -> str:
        return interval(scale * row["difference"], scale * row["low"], scale * row["high"], digits)

    columns: dict[str, Cells] = {
        "game": "game", "n": "n", f"A{unit}": lambda row: number(scale * row["a"], digits),
        f"B{unit}": lambda row: number(scale * row["b"], digits), f"A - B [95% CI]{unit}": difference,
        "A / B\nmore": lambda row: f"{row['a_more']} / {row['b_more']}", "p": lambda row: f"{row['p']:.3g}",
        "p Holm": lambda row: f"{row['p_holm']:.3g}", "verdict": "verdict",
    }  # fmt: skip
    return grid_of(data, columns, left=1, hideable=("p", "A / B\nmore", "n"))
