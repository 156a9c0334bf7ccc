"""The most memory that each phase of an iteration takes, by PyTorch's count and on the whole device."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.callbacks import Callback
from ragen_agents.starpo.memory.training_memory import GIB, PHASES, MemoryPlan
from ragen_agents.starpo.trainer import Trainer
from ragen_agents.starpo.update.learner import Learner

T = TypeVar("T")


class PhaseMemory(Callback):
    """Notes peaks by phase: "rollout", "scores", "update", "step". On a CPU there are none.

    PyTorch counts what it holds of vLLM's memory also while vLLM sleeps; the device's own number does not.
    """

    def __init__(self) -> None:
        self.torch_gib: dict[str, float] = {}
        self.device_gib: dict[str, float] = {}
        self._phase = "rollout"
        self._lock = threading.Lock()

    def attach(self, learner: Learner) -> None:
        """Note the phases of a learner's calls."""
        learner.prepare = self._during("scores", learner.prepare)  # type: ignore[method-assign]
        learner.update = self._during("update", learner.update)  # type: ignore[method-assign]
        for optimizer in filter(None, (learner.optimizer, learner.critic_optimizer)):
            optimizer.register_step_pre_hook(lambda *_: self.begin("step"))
            optimizer.register_step_post_hook(lambda *_: self.begin("update"))

    def on_train_begin(self, trainer: Trainer) -> None:
        """Watch the trainer's learner."""
        self.attach(trainer.learner)
        self.begin("rollout")

    def on_rollout_end(
        self, trainer: Trainer, iteration: int, trajectories: Sequence[Trajectory]  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Note the peak of a rollout."""
        self.begin("rollout")

    def _during(self, phase: str, call: Callable[..., T]) -> Callable[..., T]:
        @wraps(call)
        def measured(*arguments: Any, **more: Any) -> T:
            self.begin(phase)
            result = call(*arguments, **more)
            self.begin("rollout")
            return result

        return measured

    def begin(self, phase: str) -> None:
        """Note the peak of the phase that ends here."""
        if not torch.cuda.is_available():
            return
        torch.cuda.synchronize()
        with self._lock:
            _raise_to(self.torch_gib, self._phase, torch.cuda.max_memory_allocated())
            self._look()
            self._phase = phase
        torch.cuda.reset_peak_memory_stats()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the device five times a second.

        Not while vLLM captures its graphs: no other thread may call CUDA then.
        """
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                with self._lock:
                    self._look()

        thread = threading.Thread(target=watch, daemon=True)
        if torch.cuda.is_available():
            thread.start()
        try:
            yield
        finally:
            ended.set()

    def _look(self) -> None:
        free, total = torch.cuda.mem_get_info()
        _raise_to(self.device_gib, self._phase, total - free)

    def against(self, plan: MemoryPlan) -> dict[str, dict[str, float]]:
        """Return GiB by phase: planned, of it the reserve for libraries, and both peaks where noted."""
        found = {}
        for phase in PHASES:
            reserve = plan.phases[phase].get("reserve", 0)
            row = {"planned": plan.total(phase) / GIB, "reserve": reserve / GIB}
            for name, peaks in (("torch", self.torch_gib), ("device", self.device_gib)):
                if phase in peaks:
                    row[name] = peaks[phase]
            found[phase] = {name: round(gib, 2) for name, gib in row.items()}
        return found


def _raise_to(peaks: dict[str, float], phase: str, size: int) -> None:
    peaks[phase] = max(peaks.get(phase, 0.0), size / GIB)
