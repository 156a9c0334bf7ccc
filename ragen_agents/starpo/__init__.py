"""StarPO and StarPO-S: multi-turn reinforcement learning of a language model on whole trajectories.

`Trainer` runs a `TrainConfig`; a reward, callbacks, an engine and an env of your own can be passed to it.
Estimators, filters and losses are registered by name, with what they need. A loop of your own is written from
`Collector`, `keep_groups`, `TrainBatch`, `Learner.prepare` and `Learner.update` (examples/custom_loop.py).
docs/training.md has both.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.losses import TokenLoss
from ragen_agents.starpo.parts.estimators import (
    ESTIMATORS,
    AdvantageEstimate,
    Estimator,
    EstimatorInput,
    per_token,
    register_estimator,
)
from ragen_agents.starpo.parts.filters import FILTERS, GroupFilter, keep_groups, register_filter
from ragen_agents.starpo.parts.objectives import (
    AGGREGATIONS,
    POLICY_LOSSES,
    Aggregation,
    BatchTotals,
    PolicyLoss,
    PolicyLossInput,
    register_aggregation,
    register_policy_loss,
)
from ragen_agents.starpo.presets import PRESETS, SCALES, merged

if TYPE_CHECKING:
    from ragen_agents.rollout.collect import Collector, GroupSpec, RewardFunction
    from ragen_agents.starpo.callbacks import Callback, ReportMetrics
    from ragen_agents.starpo.run.empty_iterations import BrokenGamesError, NothingKeptError
    from ragen_agents.starpo.run.metrics import group_returns, rollout_metrics
    from ragen_agents.starpo.trainer import DivergedError, Trainer
    from ragen_agents.starpo.update.batch import TrainBatch
    from ragen_agents.starpo.update.learner import Learner

# What needs transformers is loaded when it is used, so that settings can be checked without it.
_LAZY = {
    "BrokenGamesError": "starpo.run.empty_iterations",
    "Callback": "starpo.callbacks",
    "Collector": "rollout.collect",
    "DivergedError": "starpo.trainer",
    "GroupSpec": "rollout.collect",
    "Learner": "starpo.update.learner",
    "NothingKeptError": "starpo.run.empty_iterations",
    "ReportMetrics": "starpo.callbacks",
    "RewardFunction": "rollout.collect",
    "TrainBatch": "starpo.update.batch",
    "Trainer": "starpo.trainer",
    "group_returns": "starpo.run.metrics",
    "rollout_metrics": "starpo.run.metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ragen_agents.{_LAZY[name]}"), name)


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
    "Collector",
    "DivergedError",
    "Estimator",
    "EstimatorInput",
    "GroupFilter",
    "GroupSpec",
    "Learner",
    "NothingKeptError",
    "PolicyLoss",
    "PolicyLossInput",
    "ReportMetrics",
    "RewardFunction",
    "TokenLoss",
    "TrainBatch",
    "TrainConfig",
    "Trainer",
    "group_returns",
    "keep_groups",
    "merged",
    "per_token",
    "register_aggregation",
    "register_estimator",
    "register_filter",
    "register_policy_loss",
    "rollout_metrics",
]
