"""A sweep as one call: what is wanted, what is there, and doing the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ragen_bench.formats import Grid, duration
from ragen_bench.sweeps.archive import archive_path, matching, read_archives
from ragen_bench.sweeps.pool import Pool, available_cpus
from ragen_bench.sweeps.schema import Sweep
from ragen_bench.sweeps.state import Cost, TaskState, read_states
from ragen_bench.sweeps.tasks import Choice, SweepTask, cells_of, plan
from ragen_bench.sweeps.view import SweepView

DEFAULT_ROOT = Path("runs/sweeps")


@dataclass(frozen=True)
class SweepRun:
    """Part of a sweep in a folder.

    Args:
        sweep: The sweep.
        choice: Which part of it.
        root: Folder of all sweeps.
        workers: Tasks at the same time.
        kept: Folder of results that are kept; tasks that are there are done. None for none.
    """

    sweep: Sweep
    choice: Choice
    root: Path
    workers: int
    kept: Path | None = None

    def states(self) -> list[TaskState]:
        """Return how far each task is."""
        tasks = plan(self.sweep, self.choice)
        kept = [] if self.kept is None else read_archives(self.archive(self.kept).parent)
        return read_states(tasks, self.root, matching(kept, tasks))

    def archive(self, folder: Path) -> Path:
        """Return the file of this sweep's results in a folder of results that are kept."""
        return archive_path(folder, self.sweep.name, self.choice.name)

    def finish(self) -> list[SweepTask]:
        """Do what is missing and return the tasks that could not be done."""
        states = self.states()
        missing = [state.task for state in states if state.result is None]
        if not missing:
            return []
        # The starter model is too small to gain from a second thread, and loses where cores are shared.
        threads = 1 if self.choice.scale == "laptop" else max(1, available_cpus() // self.workers)
        with SweepView(self.root, states) as view:
            return Pool(self.root, self.workers, threads, view).run(missing)

    def cost(self) -> tuple[pd.DataFrame, list[str]]:
        """Return a row for each game and cell with what is done and what is left, and notes.

        Columns: ``game``, ``cell``, ``design``, ``tasks``, ``done``, ``begun``, ``iterations`` (of all
        tasks), ``iterations_done``, ``seconds_left`` (on one thread; nan where nothing was measured).
        """
        states = self.states()
        cost = Cost(self.sweep, self.choice.scale, states)
        by_task = {state.task.path: state for state in states}
        rows = [
            self._row(game, cell, [by_task[task.path] for task in tasks], cost)
            for (game, cell), tasks in cells_of([state.task for state in states])
        ]
        return pd.DataFrame(rows), _notes(rows, self.workers)

    def _row(
        self, game: str, cell: str, states: Sequence[TaskState], cost: Cost
    ) -> dict[str, object]:
        left = [cost.left(state) for state in states]
        known = [seconds for seconds in left if seconds is not None]
        return {
            "game": game,
            "cell": cell,
            "design": self.sweep.cells[cell].design,
            "tasks": len(states),
            "done": sum(state.status == "done" for state in states),
            "begun": sum(state.status == "begun" for state in states),
            "iterations": sum(state.task.iterations for state in states),
            "iterations_done": sum(state.iterations for state in states),
            "seconds_left": sum(known) if len(known) == len(left) else float("nan"),
        }


def default_workers() -> int:
    """Return how many tasks run at the same time by default: one a processor."""
    return available_cpus()


def cost_grid(data: pd.DataFrame) -> Grid:
    """Return the table of what is left for people."""
    rows = [
        [
            row["game"],
            row["cell"],
            row["design"],
            f"{row['done']}/{row['tasks']}",
            str(row["begun"]),
            f"{row['iterations_done']}/{row['iterations']}",
            _time(row["seconds_left"]),
        ]
        for row in data.to_dict("records")
    ]
    header = [
        "game",
        "cell",
        "design",
        "tasks\ndone",
        "begun",
        "iterations\ndone",
        "left, on\none thread",
    ]
    return Grid(header, rows, left=3)


def _time(seconds: float) -> str:
    return "unknown" if seconds != seconds else duration(seconds)


def _notes(rows: Sequence[dict[str, object]], workers: int) -> list[str]:
    left = [float(str(row["seconds_left"])) for row in rows]
    total = sum(left)
    if total != total:
        return [
            "no iteration of some games was measured yet at this scale, so their time is unknown"
        ]
    return [
        f"about {duration(total / workers)} with {workers} tasks at a time, from measured iterations"
    ]
