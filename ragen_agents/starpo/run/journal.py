"""Write the metrics and samples of a run: to its files, and to the trackers whose packages are installed."""

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import Any, BinaryIO, Final

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.run_files.files import ResourceContext
from ragen_agents.run_files.records import ITERATION, METRICS
from ragen_agents.starpo.run.checkpoint import Progress
from ragen_envs.errors import RagenError, first_line

SAMPLES: Final = "samples.jsonl"
_Sample = Mapping[str, Any]
_COLUMNS: Final = ("iteration", "kind", "group", "success", "return", "end", "conversation")


class Journal(ResourceContext):
    """The two append-only files; a context manager.

    Entering cuts off what was written after the checkpoint that the run goes on from.
    """

    def __init__(self, folder: Path, progress: Progress, active: bool = True) -> None:
        self._folder, self._progress, self._active = folder, progress, active
        self._trackers: list[TensorBoardTracker | _TableTracker] = []
        self._files: dict[str, BinaryIO] = {}
        self._unsent: list[dict[str, Any]] = []
        """Samples since the last metrics, which the trackers get together."""

    def _open(self, resources: ExitStack) -> None:
        if not self._active:
            return
        for kind in (TensorBoardTracker, WandbTracker, TrackioTracker):
            try:
                tracker = kind(self._folder, self._progress)
            except ImportError:
                continue
            resources.callback(tracker.close)
            self._trackers.append(tracker)
        resources.callback(self._send, None, {})
        sizes = {METRICS: self._progress.metrics_size, SAMPLES: self._progress.samples_size}
        for name, size in sizes.items():
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
        plain = {name: _plain(value) for name, value in values.items()}
        self._line(METRICS, {ITERATION: iteration, **plain})
        scalars = {name: value for name, value in plain.items() if isinstance(value, float | int)}
        self._send(iteration, scalars)

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
        self._unsent.append(line)

    def _send(self, iteration: int | None, scalars: dict[str, float]) -> None:
        samples, self._unsent = self._unsent, []
        for tracker in self._trackers:
            tracker.log(iteration, scalars, samples)

    def _line(self, name: str, data: dict[str, Any]) -> None:
        if not self._active:
            return
        self._files[name].write((json.dumps(data) + "\n").encode())
        self._files[name].flush()


def _plain(value: Any) -> Any:
    """Return a number of NumPy or torch as Python's, and other values as they are."""
    return value.item() if hasattr(value, "item") else value


def _conversation(sample: _Sample) -> str:
    return "\n\n".join(f"[{m['role']}]\n{m['content']}" for m in sample["messages"])


class TensorBoardTracker:
    """Event files in the run directory."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Hides what an interrupted run wrote after the checkpoint that it goes on from.
        purge = progress.iteration + 1 if progress.iteration or progress.metrics_size else 0
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=purge)

    def log(self, iteration: int | None, values: dict[str, float], samples: Sequence[_Sample]) -> None:
        """Write one curve a name, and conversations as texts, beside those of other iterations."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)
        for sample in samples:
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

    def log(self, iteration: int | None, values: dict[str, float], samples: Sequence[_Sample]) -> None:
        """Log the scalars and a table of the samples as one step."""
        rows = [[*(sample[name] for name in _COLUMNS[:-1]), _conversation(sample)] for sample in samples]
        table = {"samples": self._table(columns=list(_COLUMNS), data=rows)} if rows else {}
        if logged := {**values, **table}:
            self._run.log(logged, step=iteration)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._run.finish()


class WandbTracker(_TableTracker):
    """A Weights & Biases run, kept in the run directory unless ``WANDB_MODE`` says ``online``."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        try:
            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "ragen"),
                id=_identity(folder),
                name=folder.name,
                dir=str(folder),
                mode=mode,
                resume="allow" if progress.iteration else None,
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

    def __init__(self, folder: Path, progress: Progress) -> None:
        import trackio

        try:
            with redirect_stdout(sys.stderr):
                run = trackio.init(
                    project=os.environ.get("TRACKIO_PROJECT", "ragen"),
                    name=f"{folder.name}-{_identity(folder)[:8]}",
                    resume="allow" if progress.iteration else "never",
                    embed=False,
                )
        except ValueError as error:
            raise RagenError(f"Trackio does not start: {first_line(error)}") from error
        super().__init__(run, trackio.Table)


def _identity(folder: Path) -> str:
    """Return a name for a run: the same directory is the same run, also after a kill."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
