"""Policies of every kind behind one protocol, and how they are named on the command line."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from ragen_agents.policies.base import (
    AsyncPolicy,
    BudgetReachedError,
    Policy,
    Reply,
    Request,
    Sampling,
)
from ragen_agents.policies.controls import (
    NoopPolicy,
    OraclePolicy,
    RandomPolicy,
    ScriptedPolicy,
)
from ragen_envs.errors import RagenError, install_hint

CONTROLS: Final[dict[str, type[RandomPolicy | NoopPolicy | OraclePolicy]]] = {
    "random": RandomPolicy,
    "noop": NoopPolicy,
    "oracle": OraclePolicy,
}
VLLM: Final = "vllm:"
"""Before a model's name: vLLM runs it."""

POLICIES_GROUP: Final = "ragen.policies"
"""Entry points of installed packages that add agents: each makes a policy from a ``Sampling``."""


def make_policy(agent: str, sampling: Sampling) -> Policy:
    """Make a policy from its name.

    Args:
        agent: "random", "noop", "oracle", "starter", an agent that an installed package adds, the
            folder of a saved model, or "hf:" and the name of a model on a hub; "vllm:" before a model
            lets vLLM run it.
        sampling: How a language model decodes.

    Raises:
        RagenError: There is no such agent, or its extra is not installed.
    """
    if agent in CONTROLS:
        return CONTROLS[agent]()
    for point in entry_points(group=POLICIES_GROUP, name=agent):
        policy: Policy = point.load()(sampling)
        policy.name = agent
        return policy
    model = agent.removeprefix(VLLM)
    source = _source(model)
    if source is None:
        added = sorted(point.name for point in entry_points(group=POLICIES_GROUP))
        known = ", ".join([*CONTROLS, "starter", *added])
        raise RagenError(
            f"unknown agent '{agent}'; use {known}, the folder of a saved model, or hf:NAME; vllm: before "
            "a model lets vLLM run it"
        )
    try:
        if agent != model:
            from ragen_agents.policies.vllm_policy import VllmPolicy

            return VllmPolicy(source, sampling, agent)
        from ragen_agents.policies.transformers_policy import TransformersPolicy

        return TransformersPolicy(source, sampling, agent)
    except ImportError as error:
        raise RagenError(f"agent '{agent}' needs {error.name}; {install_hint('models')}") from error


def _source(model: str) -> str | Path | None:
    """Return the folder or the hub's name of a model, or None if there is none."""
    if model == "starter":
        from ragen_agents.starter import STARTER

        return STARTER
    if model.startswith("hf:"):
        return model.removeprefix("hf:")
    return model if Path(model).is_dir() else None


__all__ = [
    "CONTROLS",
    "VLLM",
    "AsyncPolicy",
    "BudgetReachedError",
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
