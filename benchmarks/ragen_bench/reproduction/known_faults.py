"""Stored runs that were trained with a fault of the trainer that has been mended since."""

from collections.abc import Iterable
from typing import Final

from ragen_bench.sweeps.results import TaskResult

_MENDED: Final = (0, 3)
"""The first version whose ``grpo`` gives equal returns no advantage."""
_KEEP_EQUAL_RETURNS: Final = ("none", "random", "softmax-top-p")
"""Filters with which groups of equal returns are learned from."""


def is_faulty(result: TaskResult) -> bool:
    """Return whether a run learned from rounding errors.

    Before version 0.3.0 a group of equal returns, whose advantages must be 0, got up to 0.94 each, with the
    sign of a rounding error, wherever the float32 mean of these returns is rounded. The run is faulty if its
    estimator is ``grpo``, its filter keeps such groups, and returns are not 0 or 1, as on the lakes.
    """
    task = result.task
    version = result.made_with.get("packages", {}).get("ragen-suite")
    if task.seed is None or task.supervised is not None or version is None:
        return False
    learns = task.train.advantage.estimator == "grpo"
    keeps = task.train.filter.kind in _KEEP_EQUAL_RETURNS
    is_rounded = not task.game.startswith("FrozenLake")
    return learns and keeps and is_rounded and _numbers(version) < _MENDED


def faults_note(results: Iterable[TaskResult]) -> list[str]:
    """Return a note that names the cells with such runs, or nothing."""
    cells = dict.fromkeys(f"{r.task.game} {r.task.cell}" for r in results if is_faulty(r))
    if not cells:
        return []
    return [
        "trained before version 0.3.0, when groups of equal returns still had an advantage: "
        + ", ".join(cells)
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
