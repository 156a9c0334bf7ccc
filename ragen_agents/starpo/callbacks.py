"""Hooks into a training run."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.run_files.records import ITERATION
from ragen_agents.signatures import takes
from ragen_agents.starpo.evaluation import EVALUATED
from ragen_envs.game.errors import RagenError

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

    def on_rollout_end(
        self, trainer: "Trainer", iteration: int, trajectories: Sequence[Trajectory]
    ) -> None:
        """Run after the rollouts of an iteration, counted from 1, before they are filtered."""

    def on_evaluate(self, trainer: "Trainer", iteration: int, metrics: dict[str, float]) -> None:
        """Run after each evaluation; iteration 0 is the initial model. Keys begin with "validation/"."""

    def on_iteration_end(self, trainer: "Trainer", iteration: int, metrics: dict[str, Any]) -> None:
        """Run after each iteration, counted from 1, with all its metrics (docs/metrics.md).

        Numbers that a hook adds to ``metrics`` under new names are logged with them.
        """

    def on_save(self, trainer: "Trainer", folder: Path) -> None:
        """Run after a checkpoint was written to a folder."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """Run once after the last iteration; not after an error."""


def checked_callbacks(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """Return the callbacks as a tuple.

    Raises:
        RagenError: They are no sequence, one of them is no instance of `Callback`, a method that begins
            with ``on_`` is no hook, or a hook does not take what it is called with.
    """
    if not isinstance(callbacks, Sequence):
        raise RagenError(f"callbacks is {callbacks!r:.80}, but must be a list of callbacks")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise RagenError(
                f"callbacks holds {callback!r:.80}, but must hold instances of ragen_agents.starpo.Callback"
            )
        _check_hooks(callback)
    return tuple(callbacks)


def call_with_metrics(
    callback: Callback, hook: str, trainer: "Trainer", iteration: int, metrics: dict[str, Any]
) -> None:
    """Call a hook that may add metrics.

    Raises:
        RagenError: It changed or removed metrics, or added something that is no number.
    """
    before = dict(metrics)
    getattr(callback, hook)(trainer, iteration, metrics)
    where = f"{type(callback).__name__}.{hook}"
    for name, value in before.items():
        if name not in metrics or metrics[name] is not value:
            raise RagenError(
                f"{where} {'changed' if name in metrics else 'removed'} the metric '{name}', but must add "
                "its numbers under new names"
            )
    for name in metrics.keys() - before.keys():
        _check_added(where, name, metrics[name])


def _check_added(where: str, name: Any, value: Any) -> None:
    if not isinstance(name, str) or name in ("", ITERATION):
        raise RagenError(
            f"{where} added a metric with the name {name!r:.80}, but a name must be text other than "
            f"'{ITERATION}'"
        )
    if name in EVALUATED:
        raise RagenError(
            f"{where} added the metric '{name}', which is of the trainer's own evaluation; choose another "
            "name"
        )
    if not isinstance(value, int | float):
        raise RagenError(
            f"{where} added the metric '{name}' of the type {type(value).__name__}, but it must be an int "
            "or a float"
        )


def _check_hooks(callback: Callback) -> None:
    hooks = [name for name in dir(Callback) if name.startswith("on_")]
    for name in hooks:
        arguments = list(signature(getattr(Callback, name)).parameters)[1:]
        hook = getattr(callback, name)
        if not callable(hook) or not takes(hook, len(arguments)):
            raise RagenError(
                f"{type(callback).__name__}.{name} must be a method that takes {', '.join(arguments)}"
            )
    for name in dir(type(callback)):
        if name.startswith("on_") and name not in hooks:
            (nearest,) = get_close_matches(name, hooks, n=1, cutoff=0.0)
            raise RagenError(
                f"{type(callback).__name__}.{name} is not a hook and would never be called; the nearest is "
                f"{nearest}. The names of other methods must not begin with on_"
            )


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
