"""A sweep as one object: its tasks, their states, their cost, and running what is missing in processes."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NamedTuple

import numpy as np
import pandas as pd
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ragen_agents.run_files.files import write_atomically, writing
from ragen_agents.run_files.records import METRICS
from ragen_bench.config.extensions import task_environment
from ragen_bench.console.formats import Cells, Grid, duration, grid_of
from ragen_bench.console.log_handler import stderr_console
from ragen_bench.console.progress import TerminalBar
from ragen_bench.console.tables import Table
from ragen_bench.evaluation.ray_cluster import RayJob, ray_jobs
from ragen_bench.training_sweeps import TASK
from ragen_bench.training_sweeps.results import (
    RESULT,
    TRAIN,
    Borrowed,
    TaskResult,
    archive_path,
    borrowed,
    check_archive,
    check_same,
    matching,
    parse_task,
    read_archive,
    read_archives,
    read_result,
)
from ragen_bench.training_sweeps.sweep_config import ScaleName, Sweep
from ragen_bench.training_sweeps.task_process import BUSY, LOG, LocalProcess, run_process
from ragen_bench.training_sweeps.tasks import CONTROLS_ROW, Choice, SweepTask, cells_of, plan
from ragen_envs.errors import RagenError

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
        done = task.iterations if result is not None else iterations_done(folder)
        states.append(TaskState(task, result, done, source))
    seeds: dict[tuple[str, str], int] = {}  # of its own, up to the last one that is done
    for task, result, _, source in states:
        if result is not None and source is None and task.seed is not None:
            cell = (task.game, task.cell)
            seeds[cell] = max(seeds.get(cell, 0), task.seed + 1)
    return [
        state
        if state.result is None or state.source or state.task.seed is None or state.task.path in kept
        else state._replace(result=state.result.model_copy(update={"seeds": seeds[task.game, task.cell]}))
        for state in states
        for task in [state.task]
    ]


def iterations_done(folder: Path) -> int:
    """Return the last iteration that a task has written down, from the end of its metrics."""
    try:
        lines = (folder / TRAIN / METRICS).read_bytes().split(b"\n")
    except FileNotFoundError:
        return 0
    for line in reversed(lines[:-1]):
        try:
            return int(json.loads(line)["iteration"])
        except (ValueError, KeyError, TypeError):
            continue
    return 0


@dataclass(frozen=True)
class Cost:
    """Estimates seconds from what was measured: in the folder itself, else on another machine.

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
        if of_cell:
            return fmean(r.seconds["train"] / r.task.steps for r in of_cell)
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


Backend = Literal["local", "ray"]

_RAY_CPUS: Final = 4
"""CPUs that a task of the paper's scale requests from Ray."""
DEFAULT_ROOT = Path("runs/sweeps")


@dataclass(frozen=True)
class SweepRun:
    """Part of a sweep in a folder.

    Args:
        sweep: The sweep.
        choice: Which part of it.
        root: Folder of all sweeps.
        workers: Number of concurrent tasks; None for one per CPU at the laptop's scale and one at the
            paper's, whose tasks would share a GPU, or with Ray as many as fit on the cluster.
        backend: Where tasks run.
        gpus: GPUs that each task requests from Ray; None for one at the paper's scale and none at the
            laptop's.
        kept: Folder of archived results, whose tasks count as done, or None.
        expected: Seeds of a cell without which it is unfinished; None for all of the choice.
    """

    sweep: Sweep
    choice: Choice
    root: Path
    workers: int | None
    backend: Backend = "local"
    gpus: float | None = None
    kept: Path | None = None
    expected: int | None = None

    def is_expected(self, task: SweepTask) -> bool:
        """Return whether the sweep is unfinished without a task."""
        return task.seed is None or self.expected is None or task.seed < self.expected

    def states(self) -> list[TaskState]:
        """Return the state of each task."""
        tasks = plan(self.sweep, self.choice)
        kept = [] if self.kept is None else read_archives(self.archive(self.kept).parent)
        return read_states(tasks, self.root, matching(kept, tasks), borrowed(kept, tasks))

    def check_kept(self) -> None:
        """Check that no archived result would be replaced by one of other settings."""
        if self.kept is not None:
            folder = self.archive(self.kept)
            check_archive(read_archive(folder), plan(self.sweep, self.choice), folder)

    def with_kept_seeds(self) -> "SweepRun":
        """Return the run with as many seeds as some cell has archived, or as it is where none are.

        Cells with fewer are unfinished only if they have fewer than were chosen. Results that are shared
        with other sweeps count: a table without their seeds would leave them out.
        """
        if self.kept is None:
            return self
        folder = self.archive(self.kept).parent
        archived = [r.task.seed for r in read_archives(folder) if r.task.seed is not None]
        most = replace(self.choice, seeds=max(archived, default=0) + 1)
        kept = replace(self, choice=most, root=folder / "no-runs").states()
        seeds = [s.task.seed for s in kept if s.result is not None and s.task.seed is not None]
        if not seeds:
            return self
        more = replace(self.choice, seeds=max(seeds) + 1)
        return replace(self, choice=more, expected=self.choice.seeds)

    def archive(self, folder: Path) -> Path:
        """Return the file of this sweep's results in a folder of archived results."""
        return archive_path(folder, self.sweep.name, self.choice.name)

    def finish(self) -> list[SweepTask]:
        """Run the missing tasks and return those that could not be done."""
        states = self.states()
        missing = [state.task for state in states if state.result is None]
        if not missing:
            return []
        if (
            self.backend == "local"
            and any(task.train.engine == "vllm" for task in missing)
            and find_spec("vllm") is None
        ):
            raise RagenError(
                "the paper's scale generates replies with vLLM, which is not installed: pip install "
                "'ragen-suite[vllm]'; --dry-run shows what the runs cost"
            )
        workers, start = self._starter()
        with SweepView(self.root, states) as view:
            return Pool(self.root, workers, start, view).run(missing)

    def _starter(self) -> "tuple[int, Callable[[Path], Job]]":
        """Return how many tasks run at a time, and what starts the one of a folder."""
        laptop = self.choice.scale == "laptop"
        if self.backend == "ray":
            gpus = (0.0 if laptop else 1.0) if self.gpus is None else self.gpus
            slots, submit = ray_jobs(1 if laptop else _RAY_CPUS, gpus, run_process)
            return self.workers or slots, submit
        workers = self._local_workers
        # The starter model is too small to gain from a second thread, and loses where cores are shared.
        threads = 1 if laptop else max(1, available_cpus() // workers)
        # A task per CPU would be too many for a GPU, and stored results were computed on CPUs.
        environment = task_environment(threads, hides_gpus=laptop)
        return workers, lambda folder: LocalProcess(folder, environment)

    @property
    def _local_workers(self) -> int:
        return self.workers or (available_cpus() if self.choice.scale == "laptop" else 1)

    def cost(self) -> Table:
        """Return a row for each game and cell with what is done and what is left.

        Columns: ``game``, ``cell``, ``design``, ``tasks``, ``done``, ``begun``, ``iterations`` (of all
        tasks), ``iterations_done``, ``seconds_run`` and ``seconds_left`` (of one run, and of all that is
        left, on one thread or, at the paper's scale, GPU; nan where nothing is known). The controls of a game
        have a row of their own, in which ``cell`` is "controls".
        """
        states = self.states()
        cost = Cost(self.sweep, self.choice.scale, states)
        by_task = {state.task.path: state for state in states}
        rows = [
            self._row(game, cell, [by_task[task.path] for task in tasks], cost)
            for (game, cell), tasks in cells_of([state.task for state in states]).items()
        ]
        left = [cost.left(state) for state in states]
        open_ = [s.task for s in states if s.result is None and s.task.steps]
        guessed = cost.scale == "paper" and any(cost.measured(task) is None for task in open_)
        title = f"{self.sweep.name} {self.sweep.version}, {self.choice.name}, in {self.root}"
        data, workers = pd.DataFrame(rows), self._local_workers if self.backend == "local" else None
        return Table.of(data, {title: cost_grid(data)}, _notes(left, workers, guessed))

    def _row(self, game: str, cell: str, states: Sequence[TaskState], cost: Cost) -> dict[str, object]:
        left = [cost.left(state) for state in states]
        known = [seconds for seconds in left if seconds is not None]
        return {
            "game": game,
            "cell": cell,
            "design": "" if cell == CONTROLS_ROW else self.sweep.cells[cell].design,
            "tasks": len(states),
            "done": sum(state.status == "done" for state in states),
            "begun": sum(state.status == "begun" for state in states),
            "iterations": sum(state.task.iterations for state in states),
            "iterations_done": sum(state.iterations for state in states),
            "seconds_run": math.nan if (one := cost.whole(states[0].task)) is None else one,
            "seconds_left": sum(known) if len(known) == len(left) else float("nan"),
        }


def cost_grid(data: pd.DataFrame) -> Grid:
    """Return the table of what is left for people."""
    columns: dict[str, Cells] = {
        "game": "game",
        "cell": "cell",
        "design": "design",
        "tasks\ndone": lambda row: f"{row['done']}/{row['tasks']}",
        "begun": "begun",
        "iterations\ndone": lambda row: f"{row['iterations_done']}/{row['iterations']}",
        "one run": lambda row: _time(row["seconds_run"]),
        "left, one\nby one": lambda row: _time(row["seconds_left"]),
    }
    grid = grid_of(data, columns, left=3, hideable=("begun", "iterations\ndone", "design"))
    designs = set(data["design"]) - {""}
    return grid if len(designs) > 1 else grid.without("design")


def _time(seconds: float) -> str:
    return "unknown" if seconds != seconds else duration(seconds)


def _notes(left: Sequence[float | None], workers: int | None, guessed: bool) -> list[str]:
    """Estimate the time of all tasks together."""
    known = [seconds for seconds in left if seconds is not None]
    total = sum(known)
    if len(known) < len(left):
        return ["the time of some games is unknown: no iteration of them has been measured at this scale"]
    source = "measured iterations"
    if guessed:
        source = (
            "the times that the paper's Figure 7 shows on hardware that it does not name; an estimate, "
            "nothing was measured at this scale"
        )
    if workers is None:
        return [f"about {duration(total)} in all, from {source}; Ray places the tasks"]
    together = max(total / workers, max(known, default=0.0))
    return [f"about {duration(together)} with {workers} tasks at a time, from {source}"]


_TRIES: Final = 2
_PAUSE: Final = 0.2


Job = LocalProcess | RayJob
"""The process of a task."""


def available_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SweepView(TerminalBar):
    """Reports a sweep on standard error; a context manager."""

    def __init__(self, root: Path, states: Sequence[TaskState]) -> None:
        self._root = root
        self._console = stderr_console()
        self._done = sum(state.status == "done" for state in states)
        self._tasks = len(states)
        self._finished = sum(_size(s.task) for s in states if s.status == "done")
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            speed_estimate_period=600,
        )
        total = sum(_size(state.task) for state in states)
        self._row = self._bar.add_task(self._text(()), total=total, completed=self._finished)

    def running(self, tasks: Sequence[SweepTask]) -> None:
        """Move the bar to where the running tasks are."""
        if not self._console.is_terminal:
            return
        under_way = sum(iterations_done(self._root / task.path) for task in tasks)
        self._bar.update(self._row, completed=self._finished + under_way, description=self._text(tasks))

    def done(self, task: SweepTask, seconds: float) -> None:
        """Report a finished task."""
        self._done += 1
        self._finished += _size(task)
        self._say(f"{self._done}/{self._tasks} {task.path}: done in {duration(seconds)}")

    def failed(self, task: SweepTask, reason: str, again: bool) -> None:
        """Report why a task is not done."""
        self._say(f"{task.path}: {reason}{'; it will be retried at the end' if again else ''}")

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def _text(self, tasks: Sequence[SweepTask]) -> str:
        names = ", ".join(f"{task.game} {task.cell} {task.path.name}" for task in tasks)
        return f"{self._done} of {self._tasks} models done  {names}"


def _size(task: SweepTask) -> int:
    """Return the length of a task on the bar: its iterations, and one for its tests."""
    return task.iterations + 1


@dataclass
class _Running:
    task: SweepTask
    job: Job
    started: float


@dataclass
class Pool:
    """Runs tasks, a fixed number at a time, and retries those that fail."""

    root: Path
    workers: int
    start: Callable[[Path], Job]
    view: SweepView
    _running: list[_Running] = field(default_factory=list)

    def run(self, tasks: Sequence[SweepTask]) -> list[SweepTask]:
        """Run all tasks, at the end those that failed once more, and return those that are not done."""
        waiting = list(tasks)
        tries: dict[Path, int] = {}
        left: list[SweepTask] = []
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.workers:
                    self._start(waiting.pop(0))
                for running in list(self._running):
                    task, code = running.task, running.job.poll()
                    if code is None:
                        continue
                    self._running.remove(running)
                    if code == 0 and (self.root / task.path / RESULT).exists():
                        self.view.done(task, time.monotonic() - running.started)
                        continue
                    tries[task.path] = tries.get(task.path, 0) + 1
                    again = code != BUSY and tries[task.path] < _TRIES
                    (waiting if again else left).append(task)
                    self.view.failed(task, self._reason(task, code, running.job.why), again)
                self.view.running([running.task for running in self._running])
                time.sleep(_PAUSE)
        finally:
            self._stop()
        return left

    def _start(self, task: SweepTask) -> None:
        folder = self.root / task.path
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _write_task(folder, task)
            job = self.start(folder.absolute())
        self._running.append(_Running(task, job, time.monotonic()))

    def _reason(self, task: SweepTask, code: int, why: str) -> str:
        if code == BUSY:
            return "another process is running it"
        if why:
            return why
        log = self.root / task.path / LOG
        lines = log.read_text("utf-8", "replace").split("\n") if log.exists() else []
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        return last_line or f"exit code {code}"

    def _stop(self) -> None:
        # The last first: what still waits for its turn must not get it.
        for running in reversed(self._running):
            running.job.cancel()
        for running in self._running:
            running.job.wait()
        self._running.clear()


def _write_task(folder: Path, task: SweepTask) -> None:
    """Write the task of a folder, or check that it is the same."""
    path = folder / TASK
    if path.exists():
        check_same(folder, parse_task(path), task)
        return
    write_atomically(path, task.model_dump_json(indent=1) + "\n")
