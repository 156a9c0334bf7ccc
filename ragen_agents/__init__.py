"""Agents that play the games, and training for them.

Examples:
    >>> from ragen_agents import TrainConfig, Trainer
    >>> config = TrainConfig(game="ragen/BanditText-v0", iterations=2)
    >>> Trainer(config, "runs/mine").run()  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragen_agents.policies import (
        AsyncPolicy,
        NoopPolicy,
        OraclePolicy,
        Policy,
        RandomPolicy,
        Reply,
        Request,
        Sampling,
        make_policy,
    )  # fmt: skip
    from ragen_agents.policies.language_models import TransformersPolicy, VllmPolicy
    from ragen_agents.starpo.config import TrainConfig
    from ragen_agents.starpo.trainer import Trainer

# Loaded when they are used: only some of them need torch.
_MODULES = {
    "policies": "AsyncPolicy NoopPolicy OraclePolicy Policy RandomPolicy Reply Request Sampling make_policy",
    "starpo.config": "TrainConfig",
    "starpo.trainer": "Trainer",
    "policies.language_models": "TransformersPolicy VllmPolicy",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"ragen_agents.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "AsyncPolicy", "NoopPolicy", "OraclePolicy", "Policy", "RandomPolicy", "Reply", "Request",
    "Sampling", "TrainConfig", "Trainer", "TransformersPolicy", "VllmPolicy", "make_policy",
]  # fmt: skip
