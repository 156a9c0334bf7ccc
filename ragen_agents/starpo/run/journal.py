"""Append the metrics and samples of a run to its files, and pass them to the trackers."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.run_files.files import ResourceContext
from ragen_agents.run_files.records import ITERATION, METRICS
from ragen_agents.starpo.run.checkpoint import Progress
from ragen_agents.starpo.run.trackers import open_trackers
from ragen_envs.errors import RagenError

SAMPLES: Final = "samples.jsonl"


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
