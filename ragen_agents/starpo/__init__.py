"""StarPO and StarPO-S: multi-turn reinforcement learning of a language model on whole trajectories.

`Trainer` runs a `TrainConfig`; a reward, callbacks, an engine and an env of your own can be passed to it.
Estimators, filters and losses are registered by name, with what they need. A loop of your own is written from
`Collector`, `kept_groups`, `prepare`, `policy_loss` and the others in examples/custom_loop.py.
docs/training.md has both.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragen_agents.run_files.yaml_files import merged
from ragen_agents.starpo.config import TrainConfig
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
from ragen_agents.starpo.parts.filters import (
    FILTERS,
    FilterInput,
    GroupFilter,
    keep_groups,
    register_filter,
)
from ragen_agents.starpo.parts.policy_losses import (
    POLICY_LOSSES,
    PolicyLoss,
    PolicyLossInput,
    register_policy_loss,
)
from ragen_agents.starpo.presets import PRESETS, SCALES

if TYPE_CHECKING:
    from ragen_agents.engines.base import Completion, Engine, TokenRequest
    from ragen_agents.engines.cpu.decoding import stop_token_ids
    from ragen_agents.engines.cpu.engine import TransformersEngine
    from ragen_agents.rollout.chat import ChatCodec
    from ragen_agents.rollout.collect import Collector, GroupSpec, RewardFunction
    from ragen_agents.rollout.trajectory import Trajectory
    from ragen_agents.starpo.callbacks import Callback, ReportMetrics
    from ragen_agents.starpo.parts.rewards import TurnReward
    from ragen_agents.starpo.rollout_step import kept_groups, learnable, training_groups
    from ragen_agents.starpo.run.empty_iterations import BrokenGamesError, NothingKeptError
    from ragen_agents.starpo.run.metrics import group_returns, rollout_metrics
    from ragen_agents.starpo.trainer import DivergedError, Trainer
    from ragen_agents.starpo.update.batch import TrainBatch, micro_batches, mini_batches
    from ragen_agents.starpo.update.learner import Learner
    from ragen_agents.starpo.update.loss import batch_totals, policy_loss
    from ragen_agents.starpo.update.models import ActorCritic, load_policy, score_trajectories
    from ragen_agents.starpo.update.prepared import prepare

# What needs transformers is loaded when it is used, so that settings can be checked without it.
_LAZY = {
    "ActorCritic": "starpo.update.models",
    "BrokenGamesError": "starpo.run.empty_iterations",
    "Callback": "starpo.callbacks",
    "ChatCodec": "rollout.chat",
    "Collector": "rollout.collect",
    "Completion": "engines.base",
    "DivergedError": "starpo.trainer",
    "Engine": "engines.base",
    "GroupSpec": "rollout.collect",
    "Learner": "starpo.update.learner",
    "NothingKeptError": "starpo.run.empty_iterations",
    "ReportMetrics": "starpo.callbacks",
    "RewardFunction": "rollout.collect",
    "TokenRequest": "engines.base",
    "TrainBatch": "starpo.update.batch",
    "Trainer": "starpo.trainer",
    "Trajectory": "rollout.trajectory",
    "TransformersEngine": "engines.cpu.engine",
    "TurnReward": "starpo.parts.rewards",
    "batch_totals": "starpo.update.loss",
    "group_returns": "starpo.run.metrics",
    "kept_groups": "starpo.rollout_step",
    "learnable": "starpo.rollout_step",
    "load_policy": "starpo.update.models",
    "micro_batches": "starpo.update.batch",
    "mini_batches": "starpo.update.batch",
    "policy_loss": "starpo.update.loss",
    "prepare": "starpo.update.prepared",
    "rollout_metrics": "starpo.run.metrics",
    "score_trajectories": "starpo.update.models",
    "stop_token_ids": "engines.cpu.decoding",
    "training_groups": "starpo.rollout_step",
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
    "ActorCritic",
    "AdvantageEstimate",
    "Aggregation",
    "BatchTotals",
    "BrokenGamesError",
    "Callback",
    "ChatCodec",
    "Collector",
    "Completion",
    "DivergedError",
    "Engine",
    "Estimator",
    "EstimatorInput",
    "FilterInput",
    "GroupFilter",
    "GroupSpec",
    "Learner",
    "NothingKeptError",
    "PolicyLoss",
    "PolicyLossInput",
    "ReportMetrics",
    "RewardFunction",
    "TokenLoss",
    "TokenRequest",
    "TrainBatch",
    "TrainConfig",
    "Trainer",
    "Trajectory",
    "TransformersEngine",
    "TurnReward",
    "batch_totals",
    "group_returns",
    "keep_groups",
    "kept_groups",
    "learnable",
    "load_policy",
    "merged",
    "micro_batches",
    "mini_batches",
    "per_token",
    "policy_loss",
    "prepare",
    "register_aggregation",
    "register_estimator",
    "register_filter",
    "register_policy_loss",
    "rollout_metrics",
    "score_trajectories",
    "stop_token_ids",
    "training_groups",
]
