"""Results that are kept: one file a sweep and scale, a task a line, small enough to be committed."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ragen_bench.runs import write_atomically
from ragen_bench.sweeps.results import TaskResult, parse_result
from ragen_bench.sweeps.tasks import SweepTask
from ragen_envs.errors import RagenError


def archive_path(root: Path, sweep: str, scale: str) -> Path:
    """Return the file of a sweep's results at a scale."""
    return root / scale / f"{sweep}.jsonl"


def read_archive(path: Path) -> list[TaskResult]:
    """Return the results of a file, or nothing if there is no such file.

    Raises:
        RagenError: A line is broken; the message names it.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise RagenError(f"'{path}' cannot be read: {error}") from error
    return [parse_result(line, f"{path} line {n}") for n, line in enumerate(lines, 1) if line]


def matching(results: Iterable[TaskResult], tasks: Sequence[SweepTask]) -> dict[Path, TaskResult]:
    """Return the results of exactly these tasks, by path; those of other settings are left out."""
    wanted = {task.path: task for task in tasks}
    return {
        result.task.path: result
        for result in results
        if wanted.get(result.task.path) == result.task
    }


def add_to_archive(path: Path, results: Iterable[TaskResult]) -> None:
    """Put results in the place of those of the same tasks; others stay.

    The file is in the order of paths, and there whole or not at all.

    Raises:
        RagenError: A line that is there is broken.
    """
    all_results = {r.task.path: r for r in [*read_archive(path), *results]}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [all_results[key].model_dump_json() + "\n" for key in sorted(all_results)]
    write_atomically(path, "".join(lines))
