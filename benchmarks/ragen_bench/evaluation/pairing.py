"""Which episodes of two runs are on the same level, and runs that cannot be compared."""

from dataclasses import asdict
from typing import Any, Final, NamedTuple

import gymnasium as gym

from ragen_agents.rollout import Episode
from ragen_bench.config.suites import Task
from ragen_bench.evaluation.run_table import Run, Sample
from ragen_envs.conversation.settings import ConversationSettings
from ragen_envs.game.errors import RagenError

_NOT_SET: Final = object()
Pair = list[tuple[Episode, Episode]]
"""Episodes of the same instance."""


class Side(NamedTuple):
    """One side of a comparison: an agent of a run."""

    run: Run
    agent: str

    def __str__(self) -> str:
        return f"{self.run.folder}:{self.agent}"


def check_versions(a: Run, b: Run) -> None:
    """Raise `RagenError` unless two runs are of one suite version and split."""
    versions = [run.config.suite_version for run in (a, b)]
    if versions[0] != versions[1]:
        raise RagenError(
            f"the runs are of suite versions {versions[0]} and {versions[1]}, whose results are not "
            "comparable"
        )
    splits = [run.config.suite.split for run in (a, b)]
    if splits[0] != splits[1]:
        raise RagenError(
            f"the runs were played on different splits: {splits[0]} in {a.folder}, {splits[1]} in "
            f"{b.folder}"
        )


def pair_episodes(a: Side, b: Side, task: str) -> Pair:
    """Return the episodes of the instances of a task that both sides have played.

    Raises:
        RagenError: The runs played the task under other settings, or other levels of it.
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
    """Return what differs between two tasks in words, or ""; what a task does not set is as its id has it."""
    ours, theirs = (run.config.suite.tasks[task] for run in (a, b))
    if ours.env != theirs.env:
        return f"env is {ours.env} in {a.folder} and {theirs.env} in {b.folder}"
    return "; ".join(
        f"{name} is {_shown(one)} in {a.folder} and {_shown(other)} in {b.folder}"
        for name in dict.fromkeys([*ours.settings, *theirs.settings])
        if (one := _setting(ours, name)) != (other := _setting(theirs, name))
    )


def _setting(task: Task, name: str) -> Any:
    if name in task.settings:
        return task.settings[name]
    spec = gym.registry.get(task.env)
    defaults = {**asdict(ConversationSettings()), **(spec.kwargs if spec else {})}
    return defaults.get(name, _NOT_SET)


def _shown(setting: Any) -> str:
    return "not set" if setting is _NOT_SET else f"{setting!r:.60}"
