"""Write the metrics and samples of a run: to its files, and to the trackers whose packages are installed."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, BinaryIO, Final

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.run_files.files import ResourceContext
from ragen_agents.run_files.records import ITERATION, METRICS
from ragen_agents.starpo.run.checkpoint import Progress
from ragen_envs.errors import RagenError, first_line

SAMPLES: Final = "samples.jsonl"
_COLUMNS: Final = ("iteration", "kind", "group", "success", "return", "end", "conversation")


class Journal(ResourceContext):
    """The two append-only files; a context manager.

    Entering cuts off what was written after the checkpoint that the run goes on from.
    """

    def __init__(self, folder: Path, progress: Progress, active: bool = True) -> None:
        self._sizes = {METRICS: progress.metrics_size, SAMPLES: progress.samples_size}
        self._folder = folder
        self._active = active
        self._trackers = open_trackers(folder, progress.iteration) if active else []
        self._files: dict[str, BinaryIO] = {}

    def _open(self, resources: ExitStack) -> None:
        for tracker in self._trackers:
            resources.callback(tracker.close)
        for name, size in self._sizes.items() if self._active else ():
            file = resources.enter_context((self._folder / name).open("ab"))
            if file.tell() < size:
                raise RagenError(f"'{self._folder / name}' is shorter than its checkpoint says")
            file.truncate(size)
            file.seek(0, os.SEEK_END)
            self._files[name] = file

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of both files."""
        return self._files[METRICS].tell(), self._files[SAMPLES].tell()

    def flush(self) -> None:
        """Return when all that was written is on the disk."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def metrics(self, iteration: int, values: dict[str, Any]) -> None:
        """Append the metrics of an iteration."""
        self._line(METRICS, {ITERATION: iteration, **values})
        scalars = {name: value for name, value in values.items() if isinstance(value, float | int)}
        for tracker in self._trackers:
            tracker.add(iteration, scalars)

    def sample(self, iteration: int, kind: str, trajectory: Trajectory) -> None:
        """Append one trajectory for people to read."""
        line = {
            "iteration": iteration,
            "kind": kind,
            "group": trajectory.group,
            "return": trajectory.episode_return,
            "success": trajectory.success,
            "end": trajectory.end,
            "messages": trajectory.messages,
            "rewards": [turn.rewards for turn in trajectory.turns],
        }
        self._line(SAMPLES, line)
        for tracker in self._trackers:
            tracker.add_sample(line)

    def _line(self, name: str, data: dict[str, Any]) -> None:
        if not self._active:
            return
        self._files[name].write((json.dumps(data) + "\n").encode())
        self._files[name].flush()


def _conversation(sample: Mapping[str, Any]) -> str:
    return "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in sample["messages"])


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

    def add_sample(self, sample: Mapping[str, Any]) -> None:
        """Write the conversation as a text, beside those of other iterations."""
        head = f"{'solved' if sample['success'] else 'not solved'}, return {sample['return']:g}"
        text = "\n".join(f"    {line}" for line in _conversation(sample).splitlines())
        name = f"{sample['kind']} samples/{sample['group']}"
        self._writer.add_text(name, f"{head}\n\n{text}", sample["iteration"])

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class _TableTracker:
    """Base of Weights & Biases and Trackio: runs that take scalars and tables, step by step."""

    def __init__(self, run: Any, table: Any) -> None:
        self._run, self._table = run, table
        self._rows: list[list[Any]] = []

    def add(self, iteration: int, values: dict[str, float]) -> None:
        """Log the scalars as one step, with a table of the samples since the last one."""
        self._run.log({**values, **self._samples()}, step=iteration)

    def add_sample(self, sample: Mapping[str, Any]) -> None:
        """Keep a row of the next table."""
        self._rows.append([*(sample[name] for name in _COLUMNS[:-1]), _conversation(sample)])

    def close(self) -> None:
        if left := self._samples():
            self._run.log(left)
        with redirect_stdout(sys.stderr):
            self._run.finish()

    def _samples(self) -> dict[str, Any]:
        rows, self._rows = self._rows, []
        return {"samples": self._table(columns=list(_COLUMNS), data=rows)} if rows else {}


class WandbTracker(_TableTracker):
    """A Weights & Biases run, kept in the run directory unless ``WANDB_MODE`` says ``online``."""

    def __init__(self, folder: Path, done: int) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        try:
            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "ragen"),
                id=_identity(folder),
                name=folder.name,
                dir=str(folder),
                mode=mode,
                resume="allow" if done else None,
                settings=wandb.Settings(console="off", silent=True),
            )
        except (wandb.Error, ValueError) as error:
            raise RagenError(
                f"Weights & Biases does not start, with WANDB_MODE {mode}: {first_line(error)}; set "
                "WANDB_MODE=disabled to train without it"
            ) from error
        super().__init__(run, wandb.Table)


class TrackioTracker(_TableTracker):
    """A Trackio run on this machine, in Trackio's own folder; ``trackio show`` opens it."""

    def __init__(self, folder: Path, done: int) -> None:
        import trackio

        try:
            with redirect_stdout(sys.stderr):
                run = trackio.init(
                    project=os.environ.get("TRACKIO_PROJECT", "ragen"),
                    name=f"{folder.name}-{_identity(folder)[:8]}",
                    resume="allow" if done else "never",
                    embed=False,
                )
        except ValueError as error:
            raise RagenError(f"Trackio does not start: {first_line(error)}") from error
        super().__init__(run, trackio.Table)


def _identity(folder: Path) -> str:
    """Return a name for a run: the same directory is the same run, also after a kill."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def open_trackers(folder: Path, done: int) -> list[TensorBoardTracker | _TableTracker]:
    """Return the trackers whose packages are installed."""
    trackers: list[TensorBoardTracker | _TableTracker] = []
    for kind in (TensorBoardTracker, WandbTracker, TrackioTracker):
        try:
            trackers.append(kind(folder, done))
        except ImportError:
            continue
    return trackers
