"""Policies of every kind behind one protocol, and how they are named on the command line."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, cast

from ragen_agents.model_files.source import find_model, known_models
from ragen_agents.policies.base import AsyncPolicy, BudgetReachedError, Policy, Reply, Request, Sampling
from ragen_agents.policies.controls import SHOP_RULES, Control, NoopPolicy, OraclePolicy, RandomPolicy
from ragen_envs.errors import RagenError, install_hint


class UnknownAgentError(RagenError):
    """No agent has this name."""


CONTROLS: Final[dict[str, type[Control]]] = {
    "random": RandomPolicy,
    "noop": NoopPolicy,
    "oracle": OraclePolicy,
}
"""Agents that show what chance, doing nothing and perfect play achieve."""
VLLM: Final = "vllm:"
"""Before a model's name: vLLM runs it."""

POLICIES_GROUP: Final = "ragen.policies"
"""Entry points of installed packages that add agents: each makes a policy from a ``Sampling``."""


def make_policy(agent: str, sampling: Sampling) -> Policy:
    """Make a policy from its name.

    Args:
        agent: "random", "noop", "oracle", a rule of ``SHOP_RULES``, an agent that an installed package
            adds, or a model: "starter", "small-lake", "smollm2", the folder of a saved one, a GGUF file, or
            "hf:" and the name of one on a hub; a model with the prefix "vllm:" runs in vLLM.
        sampling: How a language model decodes.

    Raises:
        UnknownAgentError: There is no such agent.
        RagenError: Its extra is not installed, or what an installed package adds is no policy or has the
            name of another agent.
    """
    point = _added(agent)
    if point is not None:
        return _added_policy(point, sampling)
    if agent in CONTROLS:
        return CONTROLS[agent]()
    if agent in SHOP_RULES:
        return SHOP_RULES[agent]()
    model = agent.removeprefix(VLLM)
    source = find_model(model)
    if source is None:
        added = sorted(point.name for point in entry_points(group=POLICIES_GROUP))
        raise UnknownAgentError(
            f"unknown agent '{agent}'; use {', '.join([*CONTROLS, *SHOP_RULES, *added])}, {known_models()}; "
            "prefix a model with vllm: to run it in vLLM"
        )
    try:
        from ragen_agents.policies.language_models import TransformersPolicy, VllmPolicy

        return (TransformersPolicy if agent == model else VllmPolicy)(source, sampling, agent)
    except ImportError as error:
        raise RagenError(f"agent '{agent}' needs {error.name}; {install_hint('models')}") from error


def is_added(agent: str) -> bool:
    """Return whether an installed package adds an agent of this name."""
    return bool(entry_points(group=POLICIES_GROUP, name=agent))


def _added(agent: str) -> EntryPoint | None:
    """Return the entry point that adds an agent, or None if no installed package does.

    Raises:
        RagenError: Another agent has the same name.
    """
    points = {p.value: p for p in entry_points(group=POLICIES_GROUP, name=agent)}
    owners = sorted(points)
    if agent in CONTROLS or agent in SHOP_RULES:
        owners.insert(0, "ragen-suite")
    if points and len(owners) > 1:
        raise RagenError(
            f"several packages have an agent '{agent}' ({', '.join(owners)}); rename it in the entry points "
            "of your own"
        )
    return next(iter(points.values()), None)


def _added_policy(point: EntryPoint, sampling: Sampling) -> Policy:
    what = f"agent '{point.name}' ({point.value})"
    try:
        policy: Any = point.load()(sampling)
        if is_policy(policy):
            policy.name = point.name
    except (Exception, SystemExit) as error:
        raise RagenError(f"{what} cannot be made: {type(error).__name__}: {error}") from error
    if not is_policy(policy):
        raise RagenError(
            f"{what} made {policy!r:.80}, but must make a policy: with batch_size and act(requests), or "
            "with concurrency, async reply(request) and async close()"
        )
    return cast("Policy", policy)


def is_policy(candidate: object) -> bool:
    """Return whether an object has what a `Policy` or an `AsyncPolicy` needs, besides its name."""
    return _has(candidate, "batch_size", "act") or _has(candidate, "concurrency", "reply", "close")


def _has(policy: object, number: str, *methods: str) -> bool:
    size = getattr(policy, number, None)
    return (
        isinstance(size, int)
        and size > 0
        and all(callable(getattr(policy, method, None)) for method in methods)
    )


__all__ = [
    "CONTROLS",
    "SHOP_RULES",
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
    "UnknownAgentError",
    "is_added",
    "is_policy",
    "make_policy",
]
