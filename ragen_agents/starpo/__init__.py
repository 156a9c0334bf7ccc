"""StarPO and StarPO-S: multi-turn reinforcement learning of a language model on whole trajectories."""

from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.presets import PRESETS, SCALES, merged

__all__ = ["PRESETS", "SCALES", "TrainConfig", "merged"]
