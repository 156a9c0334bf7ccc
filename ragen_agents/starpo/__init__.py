"""StarPO and StarPO-S: multi-turn reinforcement learning of a language model on whole trajectories.

`Trainer` runs a `TrainConfig`; a reward, callbacks, an engine and an env of your own can be passed to it.
Estimators, filters and losses are registered by name, with what they need (docs/training.md).
examples/custom_loop.py writes the training loop out, from the functions that the trainer calls.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragen_agents.run_files.yaml_files import merged
from ragen_agents.starpo.config import PRESETS, SCALES, TrainConfig
from ragen_agents.starpo.math.losses import TokenLoss
from ragen_agents.starpo.parts.aggregations import (
    AGGREGATIONS,
    Aggregation,
    BatchTotals,
    register_aggregation,
)
from ragen_agents.starpo.parts.estimators import (
    ESTIMATORS,
    AdvantageEstimate,
    Estimator,
    EstimatorInput,
    per_token,
    register_estimator,
)
from ragen_agents.starpo.parts.filters import FILTERS, FilterInput, GroupFilter, register_filter
from ragen_agents.starpo.parts.policy_losses import (
    POLICY_LOSSES,
    PolicyLoss,
    PolicyLossInput,
    register_policy_loss,
)
from ragen_agents.starpo.parts.registry import Part

if TYPE_CHECKING:
    from ragen_agents.engines.base import Engine
    from ragen_agents.rollout.collect import RewardFunction
    from ragen_agents.starpo.callbacks import Callback
    from ragen_agents.starpo.parts.rewards import TurnReward
    from ragen_agents.starpo.run.errors import BrokenGamesError, TrainingFailedError
    from ragen_agents.starpo.trainer import Trainer

# What needs transformers is loaded when it is used, so that settings can be checked without it.
_LAZY = {
    "BrokenGamesError": "starpo.run.errors",
    "Callback": "starpo.callbacks",
    "Engine": "engines.base",
    "RewardFunction": "rollout.collect",
    "Trainer": "starpo.trainer",
    "TrainingFailedError": "starpo.run.errors",
    "TurnReward": "starpo.parts.rewards",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ragen_agents.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AGGREGATIONS",
    "ESTIMATORS",
    "FILTERS",
    "POLICY_LOSSES",
    "PRESETS",
    "SCALES",
    "AdvantageEstimate",
    "Aggregation",
    "BatchTotals",
    "BrokenGamesError",
    "Callback",
    "Engine",
    "Estimator",
    "EstimatorInput",
    "FilterInput",
    "GroupFilter",
    "Part",
    "PolicyLoss",
    "PolicyLossInput",
    "RewardFunction",
    "TokenLoss",
    "TrainConfig",
    "Trainer",
    "TrainingFailedError",
    "TurnReward",
    "merged",
    "per_token",
    "register_aggregation",
    "register_estimator",
    "register_filter",
    "register_policy_loss",
]
