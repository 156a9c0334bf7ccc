"""Evaluate the policy during training, on frozen validation levels."""

from typing import Final

from accelerate import Accelerator

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.processes import collect_on_all
from ragen_agents.starpo.run.metrics import rollout_metrics
from ragen_envs.levels.splits import VALIDATION

_NAMES: Final = ("success", "return", "valid", "effective", "reply_tokens")
EVALUATED: Final = tuple(f"validation/{name}" for name in _NAMES)
"""Names of the metrics of an evaluation."""


class Evaluator:
    """Plays the first validation instances, one episode each, with seeds of its own."""

    def __init__(self, config: TrainConfig, collector: Collector, accelerator: Accelerator) -> None:
        self._config, self._collector, self._accelerator = config, collector, accelerator

    def is_due(self, iteration: int) -> bool:
        """Return whether the policy is evaluated after so many iterations."""
        every = self._config.evaluation.every
        return bool(every) and (iteration % every == 0 or iteration == self._config.iterations)

    def evaluate(self) -> tuple[dict[str, float], list[Trajectory]]:
        """Return the metrics that ``EVALUATED`` names, the shares of true claims, and the trajectories."""
        groups = [
            GroupSpec(i, 1, {"split": VALIDATION, "index": i})
            for i in range(self._config.evaluation.episodes)
        ]
        trajectories = collect_on_all(self._collector, groups, 0, self._accelerator)
        means = rollout_metrics(trajectories)
        metrics = {key: means[name] for key, name in zip(EVALUATED, _NAMES, strict=True)}
        metrics |= {
            f"validation/{name}": share
            for name, share in means.items()
            if name.startswith("claims/")
        }
        return metrics, trajectories
