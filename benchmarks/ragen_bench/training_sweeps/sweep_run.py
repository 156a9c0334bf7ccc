"""A sweep as one object: its tasks, their states, their cost, and running what is missing in processes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import pandas as pd

from ragen_bench.config.extensions import task_environment
from ragen_bench.console.formats import Cells, Grid, duration, grid_of
from ragen_bench.console.tables import Table
from ragen_bench.evaluation.ray_cluster import ray_jobs
from ragen_bench.training_sweeps.jobs import Job, Pool, SweepView, available_cpus
from ragen_bench.training_sweeps.results import (
    archive_path,
    borrowed,
    check_archive,
    matching,
    read_archive,
    read_archives,
)
from ragen_bench.training_sweeps.state import Cost, TaskState, read_states
from ragen_bench.training_sweeps.sweep_config import Sweep
from ragen_bench.training_sweeps.task_process import LocalProcess, run_process
from ragen_bench.training_sweeps.tasks import CONTROLS_ROW, Choice, SweepTask, cells_of, plan
from ragen_envs.errors import RagenError, install_hint

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

        Cells with fewer are unfinished only if they have fewer than were chosen.

        Results that it shares with other sweeps count: a table without their seeds would leave them out.
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
                f"the paper's scale generates replies with vLLM: {install_hint('vllm')}; --dry-run shows "
                "what the runs cost"
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
