"""Hooks into a training run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragen_agents.rollout.trajectory import Trajectory

if TYPE_CHECKING:
    from ragen_agents.starpo.trainer import Trainer


class Callback:
    """Base class of callbacks; override the hooks that you need.

    Every process of a distributed run calls them, in the order in which they were passed to the trainer;
    ``trainer.is_main_process`` is true in one of them.
    ``trainer.stop()`` ends the run after the current iteration. An exception ends it at once, and the next
    run of the same directory resumes from the last checkpoint.
    """

    def on_train_begin(self, trainer: "Trainer") -> None:
        """Run once before the first iteration, after a checkpoint was loaded."""

    def on_rollout_end(self, trainer: "Trainer", iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Run after the rollouts of an iteration, counted from 1, before they are filtered."""

    def on_evaluate(self, trainer: "Trainer", iteration: int, metrics: dict[str, float]) -> None:
        """Run after each evaluation; iteration 0 is the initial model. Keys begin with "validation/"."""

    def on_iteration_end(self, trainer: "Trainer", iteration: int, metrics: dict[str, Any]) -> None:
        """Run after each iteration, counted from 1, with all its metrics (docs/training-metrics.md).

        Numbers that a hook adds to ``metrics`` under new names are logged with them.
        """

    def on_save(self, trainer: "Trainer", folder: Path) -> None:
        """Run after a checkpoint was written to a folder."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """Run once after the last iteration; not after an error."""


class ReportMetrics(Callback):
    """Passes the metrics of every iteration to a function.

    Args:
        report: Called with the iteration's number and its metrics; iteration 0 is the evaluation of the
            initial model.
    """

    def __init__(self, report: Callable[[int, dict[str, Any]], None]) -> None:
        self._report = report

    def on_evaluate(self, trainer: "Trainer", iteration: int, metrics: dict[str, float]) -> None:  # noqa: ARG002
        """Report the evaluation of the initial model."""
        if iteration == 0:
            self._report(0, metrics)

    def on_iteration_end(self, trainer: "Trainer", iteration: int, metrics: dict[str, Any]) -> None:  # noqa: ARG002
        """Report an iteration."""
        self._report(iteration, metrics)
