"""Save a run, resume it, and roll it back to a healthy checkpoint."""

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from ragen_agents.run_files.files import remove_unfinished
from ragen_agents.run_files.records import ITERATION, METRICS, read_metrics
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.processes import from_all
from ragen_agents.starpo.run import checkpoint
from ragen_agents.starpo.run.checkpoint import Progress
from ragen_agents.starpo.run.journal import Journal
from ragen_agents.starpo.run.monitor import EchoTrapMonitor, Sign
from ragen_agents.starpo.update.learner import Learner
from ragen_envs.errors import RagenError

CHECKPOINTS: Final = "checkpoints"
BEST: Final = "best"

Action = Literal["none", "rolled back", "stopped"]
"""Action taken at a collapse."""


class RunState:
    """Saves a run, resumes it, and rolls it back."""

    def __init__(
        self, config: TrainConfig, run_dir: Path, learner: Learner, tokenizer: Any,
        on_save: Callable[[Path], None],
    ) -> None:  # fmt: skip
        self.config, self.run_dir = config, run_dir
        self.learner, self.tokenizer = learner, tokenizer
        self.progress = Progress()
        self.monitor = EchoTrapMonitor(config.monitor)
        self._on_save = on_save
        self._settled: Progress | None = None
        self._saved: Progress | None = None

    @property
    def checkpoints(self) -> Path:
        """The folder of all checkpoints."""
        return self.run_dir / CHECKPOINTS

    @property
    def rolls_back(self) -> bool:
        """Whether a collapse leads back to the last healthy checkpoint."""
        return self.config.monitor.action == "rollback"

    def update(self, **changes: Any) -> None:
        """Change fields of the progress."""
        self.progress = replace(self.progress, **changes)

    def resume(self) -> None:
        """Load the latest checkpoint, if there is one, and show the monitor what came before it.

        A `RagenError` says that it cannot be loaded, that those of a longer run are missing, or that several
        processes do not see the same ones.
        """
        accelerator = self.learner.accelerator
        latest = checkpoint.latest(self.checkpoints)
        if len(set(from_all(None if latest is None else latest.name, accelerator))) > 1:
            raise RagenError(
                f"the processes see different checkpoints in '{self.checkpoints}'; the run directory must be "
                "on a disk that all machines share"
            )
        if latest is None:
            self._check_begins()
            return
        self.progress = checkpoint.load(latest, self.learner)
        written = self.progress.iteration - (self.progress.pending is not None)
        for line in read_metrics(self.run_dir):
            if line[ITERATION] == 0:
                self.monitor.begin(line)
            elif line[ITERATION] <= written:
                self.monitor.observe(line)
            if line[ITERATION] == self.progress.rolled_back:
                self.monitor.restart()

    def _check_begins(self) -> None:
        """Refuse to begin again where a run has got beyond its first checkpoint: its metrics would be lost.

        A run that was killed, or whose disk was full, before it had one has ``save_every`` iterations
        at most.
        """
        if not (self.run_dir / METRICS).exists():
            return
        done = max((line[ITERATION] for line in read_metrics(self.run_dir)), default=0)
        if done > self.config.save_every:
            raise RagenError(
                f"'{self.run_dir}' has metrics of {done} iterations, but no checkpoint to resume from; "
                f"restore '{self.checkpoints}', or remove the run directory to start over"
            )

    def settle(self, journal: Journal) -> None:
        """Note that the run can be resumed from exactly here, with what the journal holds now."""
        if self.learner.accelerator.is_main_process:
            metrics_size, samples_size = journal.sizes
            self.update(metrics_size=metrics_size, samples_size=samples_size)
        self._settled = self.progress
        self.learner.moved = False

    def save_settled(self, journal: Journal) -> bool:
        """Save the run as it was when it was last settled.

        Returns:
            Whether it could be: not if weights have changed since.
        """
        if self.learner.moved or self._settled is None:
            return False
        self.progress = self._settled
        if self.progress != self._saved:
            self._save(journal)
        return True

    def save_best(self, journal: Journal, metrics: dict[str, Any]) -> None:
        """Save the model if it was evaluated and is better than any before."""
        score, best = metrics.get("validation/success"), self.progress.best
        if score is None:
            return
        earned, most = metrics["validation/return"], self.progress.best_return
        if best is None or score > best or (score == best == 0 and earned > most):
            self.update(best=score, best_return=earned)
            self._write(journal, self.run_dir / BEST, model_only=True)

    def save_due(self, journal: Journal, now: bool = False) -> None:
        """Settle, and save a checkpoint if it is time for one, or if it has to be now."""
        self.settle(journal)
        done = self.progress.iteration
        regular = done % self.config.save_every == 0
        due = now or regular or done == self.config.iterations
        if not due or self.progress == self._saved:
            return
        # Only regular ones: where an interrupted run stopped must not decide where it goes back to.
        settled = regular and self.progress.pending is None
        if settled and self.rolls_back and self.monitor.healthy:
            self.update(healthy=done)
            self.settle(journal)
        self._save(journal)

    def _save(self, journal: Journal) -> None:
        self._write(journal, checkpoint.path_of(self.checkpoints, self.progress.iteration))
        self._saved = self.progress
        if self.learner.accelerator.is_main_process:
            at = self.progress
            remove_unfinished(self.run_dir)
            checkpoint.prune(self.checkpoints, self.config.save_total_limit, at.healthy)

    def act_on(self, signs: Container[Sign]) -> Action:
        """Take the config's action at a collapse, and return it.

        After a rollback the monitor starts anew, but keeps the best, so that it can see the next collapse.
        """
        action, at = self.config.monitor.action, self.progress
        if action == "warn" or "collapse" not in signs:
            return "none"
        if self.rolls_back and at.rolled_back is None and at.healthy is not None:
            self.learner.moved = True
            checkpoint.load(checkpoint.path_of(self.checkpoints, at.healthy), self.learner)
            self.update(rolled_back=at.iteration)
            self.monitor.restart()
            return "rolled back"
        self.update(collapsed=True)
        return "stopped"

    def _write(self, journal: Journal, folder: Path, model_only: bool = False) -> None:
        if self.learner.accelerator.is_main_process:
            journal.flush()
        checkpoint.save(folder, self.learner, self.tokenizer, self.progress, model_only)
        self._on_save(folder)
