"""Results that are kept: one file a sweep and scale, a task a line, small enough to be committed."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ragen_agents.run_files.files import opened_alone, read_text, write_atomically
from ragen_agents.run_files.yaml_files import differences_of
from ragen_agents.starpo.config import resources_of
from ragen_bench.training_sweeps.results import TaskResult, parse_result
from ragen_bench.training_sweeps.tasks import SweepTask
from ragen_envs.errors import RagenError


class Borrowed(NamedTuple):
    """A result of another sweep."""

    result: TaskResult
    """Result in the form of the task that it serves, without times."""
    source: SweepTask
    """The task that was done."""


def archive_path(root: Path, sweep: str, scale: str) -> Path:
    """Return the file of a sweep's results at a scale."""
    return root / scale / f"{sweep}.jsonl"


def read_archive(path: Path) -> list[TaskResult]:
    """Return the results of a file, or nothing if there is no such file."""
    lines = read_text(path).split("\n") if path.exists() else []
    return [parse_result(line, f"{path} line {n}") for n, line in enumerate(lines, 1) if line]


def read_archives(folder: Path) -> list[TaskResult]:
    """Return the results of all sweeps in a folder."""
    return [result for path in sorted(folder.glob("*.jsonl")) for result in read_archive(path)]


def matching(results: Iterable[TaskResult], tasks: Sequence[SweepTask]) -> dict[Path, TaskResult]:
    """Return the results of exactly these tasks, by path; those of other settings are left out."""
    wanted = {task.path: task.settings for task in tasks}
    return {
        result.task.path: result for result in results if wanted.get(result.task.path) == result.task.settings
    }


def check_archive(results: Iterable[TaskResult], tasks: Sequence[SweepTask], folder: Path) -> None:
    """Check that no archived result of other settings is in the place of a task's result."""
    wanted = {task.path: task for task in tasks}
    for result in results:
        task = wanted.get(result.task.path)
        if task is None:
            continue
        differs = differences_of(result.task.settings, task.settings)
        if differs is not None:
            raise RagenError(
                f"'{folder}' keeps a result of {task.path} under other settings: {differs}; give "
                "another --results, or move its file away"
            )


def borrowed(results: Iterable[TaskResult], tasks: Sequence[SweepTask]) -> dict[Path, Borrowed]:
    """Return the results of other sweeps that are results of these tasks too, by path.

    Sweeps share cells, such as the plain method. Training must be the same in everything, and all tests
    of the task among those that were played.
    """
    done: dict[str, list[TaskResult]] = {}
    for result in results:
        done.setdefault(_work_of(result.task), []).append(result)
    lent = {}
    for task in tasks:
        others = [r for r in done.get(_work_of(task), []) if r.task.path != task.path]
        tests = task.suite.tasks.items()
        twin = next((r for r in others if tests <= r.task.suite.tasks.items()), None)
        if twin is not None:
            lent[task.path] = Borrowed(_renamed(twin, task), twin.task)
    return lent


def _work_of(task: SweepTask) -> str:
    """Return all that a task does but its tests, as text. Controls do not train."""
    train = task.train
    controls = f"{train.model} {train.weights} {train.engine}"
    made = controls if task.seed is None else train.model_dump_json(exclude=resources_of(train))
    suite = task.suite.model_dump_json(exclude={"name", "version", "tasks"})
    return f"{task.suite_version} {task.seed} {made} {task.supervised} {suite}"


def _renamed(result: TaskResult, task: SweepTask) -> TaskResult:
    outcomes = {
        agent: {test: played[test] for test in task.suite.tasks} for agent, played in result.outcomes.items()
    }
    # Times of another command, perhaps on another machine, are not comparable.
    curves = {name: c for name, c in result.curves.items() if not name.startswith("seconds/")}
    return result.model_copy(update={"task": task, "outcomes": outcomes, "curves": curves})


def add_to_archive(path: Path, results: Iterable[TaskResult]) -> None:
    """Replace results of the same tasks; others stay.

    The file is in the order of paths, and there whole or not at all. It is not touched where nothing changes.
    Several processes may add results at once.
    """
    new = {result.task.path: result for result in results}
    archived = _by_path(path)
    if archived | new == archived:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened_alone(path):
        all_results = _by_path(path) | new
        lines = [all_results[key].model_dump_json() + "\n" for key in sorted(all_results)]
        write_atomically(path, "".join(lines))


def _by_path(path: Path) -> dict[Path, TaskResult]:
    return {result.task.path: result for result in read_archive(path)}
