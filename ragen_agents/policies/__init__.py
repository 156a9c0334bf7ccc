"""Policies of every kind behind one protocol, and how they are named on the command line."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from ragen_agents.policies.base import Policy, Reply, Request, Sampling
from ragen_agents.policies.controls import (
    NoopPolicy,
    OraclePolicy,
    RandomPolicy,
    ScriptedPolicy,
)
from ragen_envs.errors import RagenError

CONTROLS: Final[dict[str, type[RandomPolicy | NoopPolicy | OraclePolicy]]] = {
    "random": RandomPolicy,
    "noop": NoopPolicy,
    "oracle": OraclePolicy,
}

POLICIES_GROUP: Final = "ragen.policies"
"""Entry points of installed packages that add agents: each makes a policy from a ``Sampling``."""


def make_policy(agent: str, sampling: Sampling) -> Policy:
    """Make a policy from its name.

    Args:
        agent: "random", "noop", "oracle", "starter", an agent that an installed package adds, the
            folder of a saved model, or "hf:" and the name of a model on a hub.
        sampling: How a language model decodes.

    Raises:
        RagenError: There is no such agent, or its extra is not installed.
    """
    if agent in CONTROLS:
        return CONTROLS[agent]()
    if agent == "starter":
        from ragen_agents.starter import STARTER

        return _load(STARTER, sampling, "starter")
    for point in entry_points(group=POLICIES_GROUP, name=agent):
        policy: Policy = point.load()(sampling)
        policy.name = agent
        return policy
    if agent.startswith("hf:"):
        return _load(agent.removeprefix("hf:"), sampling, agent)
    if Path(agent).is_dir():
        return _load(agent, sampling, agent)
    raise RagenError(
        f"unknown agent '{agent}'; use {', '.join([*CONTROLS, 'starter', *_added()])}, the folder of "
        "a saved model, or hf:NAME"
    )


def _added() -> list[str]:
    return sorted(point.name for point in entry_points(group=POLICIES_GROUP))


def _load(model: str | Path, sampling: Sampling, name: str) -> Policy:
    try:
        from ragen_agents.policies.transformers import TransformersPolicy
    except ImportError as error:
        raise RagenError(
            f"agent '{name}' needs {error.name}; install it with pip install 'ragen-suite[models]'"
        ) from error
    return TransformersPolicy(model, sampling, name)


__all__ = [
    "CONTROLS",
    "NoopPolicy",
    "OraclePolicy",
    "Policy",
    "RandomPolicy",
    "Reply",
    "Request",
    "Sampling",
    "ScriptedPolicy",
    "make_policy",
]
