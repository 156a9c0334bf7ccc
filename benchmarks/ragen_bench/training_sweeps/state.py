"""The state of each task of a sweep, and the time that the rest will take."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ragen_agents.run_files.records import METRICS
from ragen_bench.training_sweeps import TASK
from ragen_bench.training_sweeps.results import (
    TRAIN,
    Borrowed,
    TaskResult,
    check_same,
    parse_task,
    read_result,
)
from ragen_bench.training_sweeps.sweep_config import ScaleName, Sweep
from ragen_bench.training_sweeps.tasks import SweepTask

_OVERHEAD = 10.0
"""Seconds in which a task's process loads its libraries, measured on two shared cores."""
_TEST = 0.05
"""Seconds of one tested episode on one thread, measured for the starter model on shared cores."""
_PAPER_SHARES = (0.25, 0.5, 0.75, 1.0)
_PAPER_STEPS = (23.5, 27.5, 31.0, 68.5)
"""Seconds of an iteration of the paper's model by the share of prompts that is kept (its Figure 7)."""
_PAPER_ROLLOUT = 19.5
"""Seconds that do not grow with the share: the first two, extrapolated to a share of 0."""
_PAPER_EPISODES = 128
"""Trajectories of an iteration there."""
Status = Literal["done", "begun", "missing"]


class TaskState(NamedTuple):
    """The state of one task."""

    task: SweepTask
    result: TaskResult | None
    iterations: int
    """Iterations that are done."""
    source: SweepTask | None = None
    """The task of another sweep whose result it is, or None if it is its own."""

    @property
    def status(self) -> Status:
        """Status in one word."""
        if self.result is not None:
            return "done"
        return "begun" if self.iterations else "missing"


def read_states(
    tasks: Sequence[SweepTask], root: Path, kept: Mapping[Path, TaskResult], others: Mapping[Path, Borrowed]
) -> list[TaskState]:
    """Return the state of each task; only reads.

    ``kept`` are results that count as done, wherever they were made; the ones that are not kept yet get
    their cell's number of seeds. ``others`` are results of other sweeps, for tasks that have none of their
    own.
    """
    states = []
    for task in tasks:
        folder = root / task.path
        result, source = kept.get(task.path) or read_result(folder, task), None
        if result is None and task.path in others:
            result, source = others[task.path]
        if result is None and (folder / TASK).exists():
            check_same(folder, parse_task(folder / TASK), task)
        done = task.iterations if result is not None else iterations_done(folder)
        states.append(TaskState(task, result, done, source))
    seeds: dict[tuple[str, str], int] = {}  # of its own, up to the last one that is done
    for task, result, _, source in states:
        if result is not None and source is None and task.seed is not None:
            cell = task.game, task.cell
            seeds[cell] = max(seeds.get(cell, 0), task.seed + 1)
    for number, state in enumerate(states):
        task, result = state.task, state.result
        if result is not None and not state.source and task.seed is not None and task.path not in kept:
            counted = result.model_copy(update={"seeds": seeds[task.game, task.cell]})
            states[number] = state._replace(result=counted)
    return states


def iterations_done(folder: Path) -> int:
    """Return the last iteration that a task has written down, from the end of its metrics."""
    try:
        *_, last, _ = (folder / TRAIN / METRICS).read_bytes().split(b"\n")
        return int(json.loads(last)["iteration"])
    except (FileNotFoundError, ValueError):  # none, or no whole line
        return 0


@dataclass(frozen=True)
class Cost:
    """Estimates seconds from results of the same cell, wherever they were made, else from shipped ones.

    At the paper's scale, where nothing was, they are those that the paper's Figure 7 shows for its model, on
    hardware that it does not name.
    """

    sweep: Sweep
    scale: ScaleName
    states: Sequence[TaskState]

    def step(self, task: SweepTask) -> float | None:
        """Return the seconds of one of a task's steps, or None where nothing is known of it."""
        measured = self.measured(task)
        if measured is not None or self.scale != "paper":
            return measured
        train, whole = task.train, _PAPER_STEPS[-1] - _PAPER_ROLLOUT
        if task.supervised is not None:
            passes = task.supervised.demonstrations * task.supervised.epochs
            return whole * passes / _PAPER_EPISODES
        keeps = train.filter.kind in ("std", "random") and train.update.steps != "equal"
        kept = float(np.interp(train.filter.ratio if keeps else 1.0, _PAPER_SHARES, _PAPER_STEPS))
        return _PAPER_ROLLOUT + train.update.epochs * (kept - _PAPER_ROLLOUT)

    def measured(self, task: SweepTask) -> float | None:
        """Return measured seconds of one of a task's steps, or None where nothing like it was measured."""
        own = [s for s in self.states if s.source is None and s.task.steps]
        results = [s.result for s in own if s.result is not None]
        of_cell = [r for r in results if (r.task.game, r.task.cell) == (task.game, task.cell)]
        if steps := sum(r.iterations[-1] if r.ended else r.task.steps for r in of_cell):
            return sum(r.seconds["train"] for r in of_cell) / steps
        shipped = self.sweep.scales[self.scale].seconds
        of_game = None if task.supervised is not None else shipped.get(task.game)
        return shipped.get(f"{task.game}/{task.cell}", of_game)

    def left(self, state: TaskState) -> float | None:
        """Return the seconds that a task still takes on one thread, or None where nothing is known."""
        return 0.0 if state.result is not None else self.whole(state.task, state.iterations)

    def whole(self, task: SweepTask, done: int = 0) -> float | None:
        """Return the seconds of a task from iteration ``done`` on, or None where nothing is known."""
        episodes = task.suite.episodes * len(task.suite.tasks)
        is_paper = self.scale == "paper"
        test = _OVERHEAD + episodes * (_PAPER_ROLLOUT / _PAPER_EPISODES if is_paper else _TEST)
        if not task.steps:
            return test
        each = self.step(task)
        return None if each is None else test + each * (task.steps - done)
