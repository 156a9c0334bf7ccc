"""TensorBoard and Weights & Biases, where they are installed; the journal is written always."""

import hashlib
import os
from pathlib import Path
from typing import Any, Final, Protocol

from ragen_envs.errors import RagenError, first_line

_WANDB_MODES: Final = ("online", "offline", "disabled")


class Tracker(Protocol):
    """Takes scalars."""

    def add(self, iteration: int, values: dict[str, float]) -> None:
        """Take in the metrics of an iteration."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoardTracker:
    """Event files in the run directory."""

    def __init__(self, folder: Path, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Hides what an interrupted run wrote after the checkpoint that it goes on from.
        purge = done + 1 if done else None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def add(self, iteration: int, values: dict[str, float]) -> None:
        """Write the scalars, one curve a name."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandbTracker:
    """A Weights & Biases run, kept in the run directory unless ``WANDB_MODE`` says ``online``."""

    def __init__(self, folder: Path, done: int) -> None:
        import wandb

        # The same directory is the same run, also after a kill.
        identity = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        if mode not in _WANDB_MODES:
            raise RagenError(f"WANDB_MODE is '{mode}', but must be {', '.join(_WANDB_MODES)}")
        try:
            self._run: Any = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "ragen"),
                id=identity,
                name=folder.name,
                dir=str(folder),
                mode=mode,
                resume="allow" if done else None,
                settings=wandb.Settings(console="off", silent=True),
            )
        except (wandb.Error, ValueError) as error:
            raise RagenError(
                f"Weights & Biases does not start, with WANDB_MODE {mode}: {first_line(error)}; with "
                "WANDB_MODE=disabled the run goes without"
            ) from error

    def add(self, iteration: int, values: dict[str, float]) -> None:
        """Log the scalars as one step."""
        self._run.log(values, step=iteration)

    def close(self) -> None:
        """Write what is left."""
        self._run.finish()


def open_trackers(folder: Path, done: int) -> list[Tracker]:
    """Return the trackers whose packages are installed.

    Args:
        folder: The run directory.
        done: Iterations that the run has done already.

    Raises:
        RagenError: One that is installed does not start as the environment asks.
    """
    trackers: list[Tracker] = []
    for kind in (TensorBoardTracker, WandbTracker):
        try:
            trackers.append(kind(folder, done))
        except ImportError:
            continue
    return trackers
