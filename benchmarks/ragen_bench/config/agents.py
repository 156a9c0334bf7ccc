"""Agents in the harness: names, hashes of their weights, policies."""

import copy
import hashlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ragen_agents.model_files.source import is_model_path, local_folder, weights_digest
from ragen_agents.policies import (
    CONTROLS,
    SHOP_RULES,
    VLLM,
    AsyncPolicy,
    Policy,
    Sampling,
    UnknownAgentError,
    is_added,
    is_policy,
    make_policy,
)
from ragen_agents.policies.endpoint.settings import OPENAI_URL, Connection, EndpointSettings, read_key
from ragen_agents.policies.python_agent import function_of, is_python_agent, load_agent, source_of, wrap_agent
from ragen_bench.config.suites import SamplingSettings, Task
from ragen_envs.conversation import TextWrapper, make
from ragen_envs.errors import RagenError, install_hint
from ragen_envs.game.text import IMAGE

OPENAI: Final = "openai:"
"""Prefix of the name of a model behind an endpoint."""


def normalise_agents(agents: Iterable[str]) -> list[str]:
    """Return the names of agents, folders without trailing slashes, or raise on a repeated one."""
    names: list[str] = []
    for agent in agents:
        if not agent.strip() or agent in (OPENAI, VLLM):
            raise RagenError(
                f"agent '{agent}' does not name a model; use random, starter, the folder of a model, "
                "or openai:MODEL"
            )
        model = agent.removeprefix(VLLM)
        is_path = is_local_model(agent) and is_model_path(model)
        name = agent.removesuffix(model) + model_path(model) if is_path else agent
        if name in names:
            raise RagenError(f"agent '{name}' is named twice")
        names.append(name)
    return names


def model_path(model: str | Path) -> str:
    """Return a path without trailing slashes, and with ``./`` where it is the name of another agent."""
    path = str(Path(model))
    is_name = not is_local_model(path) or not is_model_path(path)
    return f"./{path}" if is_name and Path(path).exists() else path


AgentLike: TypeAlias = str | Path | Policy | AsyncPolicy | Callable[..., Any]
"""An agent: its name on the command line, the folder of a model, a policy, a function of a `Request`, or a
class or an object with the method ``reply``."""
Agents: TypeAlias = AgentLike | Sequence[AgentLike] | Mapping[str, AgentLike]
"""One agent, several, or several by the names that they have in tables."""


class LiveAgent(NamedTuple):
    """An agent that is an object of this process."""

    policy: Policy | AsyncPolicy
    source: str | None
    """Hash of its source, or None if that is not known."""


def name_agents(agents: Agents, concurrency: int) -> tuple[list[str], dict[str, LiveAgent]]:
    """Return the names of all agents, and those of them that are objects of this process."""
    if isinstance(agents, Mapping):
        pairs = list(agents.items())
    else:
        each: Sequence[Any] = agents if isinstance(agents, list | tuple) else [agents]
        pairs = [(_name_of(agent), agent) for agent in each]
    live = {}
    for name, agent in pairs:
        if isinstance(agent, str | Path):
            if name != _name_of(agent):
                raise RagenError(f"agent '{agent}' cannot be called '{name}': it has its own name")
        elif type(agent) is not CONTROLS.get(name) and name != _importable(agent):
            if name.startswith(OPENAI) or name in CONTROLS or folder_of(name) is not None:
                raise RagenError(
                    f"'{name}' is the name of another agent; give yours another: {{NAME: agent}}"
                )
            live[name] = LiveAgent(_live_policy(name, agent, concurrency), _source_hash(agent))
    return normalise_agents([name for name, _ in pairs]), live


def _name_of(agent: Any) -> str:
    if isinstance(agent, str):
        return agent
    if isinstance(agent, Path):
        return model_path(agent)
    own = _importable(agent) or getattr(agent, "name", None)
    own = own or getattr(agent, "__name__", type(agent).__name__)
    if not isinstance(own, str) or own == "<lambda>":
        raise RagenError(f"agent {agent!r:.80} has no name; pass {{NAME: agent}}")
    return own


def _importable(agent: Any) -> str | None:
    """Return the name by which the command line finds a function or a class of a module, or None."""
    module, name = getattr(agent, "__module__", None), getattr(agent, "__qualname__", "")
    full = f"{module}:{name}"
    if module == "__main__" or not is_python_agent(full):
        return None
    return full if getattr(sys.modules.get(str(module)), name, None) is agent else None


def _live_policy(name: str, agent: Any, concurrency: int) -> Policy | AsyncPolicy:
    if not is_policy(agent) or isinstance(agent, type):
        return wrap_agent(name, function_of(agent), concurrency)
    policy = copy.copy(agent)
    policy.name = name
    return cast("Policy | AsyncPolicy", policy)


def _source_hash(agent: Any) -> str | None:
    """Return the hash of an agent's source: of a function, or the class of an object."""
    is_code = isinstance(agent, type) or inspect.isroutine(agent)
    try:
        source = inspect.getsource(agent if is_code else type(agent))
    except (OSError, TypeError):  # typed into an interpreter, or written in C
        return None
    return hashlib.sha256(source.encode()).hexdigest()


def weights_of(agent: str) -> str | None:
    """Return a hash of a local model's files or a Python agent's source, or None for other agents."""
    if is_python_agent(agent):
        return hashlib.sha256(source_of(agent)).hexdigest()
    folder = folder_of(agent)
    return None if folder is None else weights_digest(folder)


def folder_of(agent: str) -> Path | None:
    """Return the folder of a local model, or None for other agents."""
    return local_folder(agent.removeprefix(VLLM)) if is_local_model(agent) else None


def is_local_model(agent: str) -> bool:
    """Return whether a name that is no object's is that of a model in this process."""
    is_rule = agent in CONTROLS or agent in SHOP_RULES or is_added(agent)
    return not (is_rule or agent.startswith(OPENAI) or is_python_agent(agent))


def default_agents(tasks: Mapping[str, Task]) -> list[str]:
    """Return the controls and the starter; left out is what needs an oracle or a package that is missing."""
    controls = ["random", "oracle"] if _have_oracle(tasks) else ["random"]
    if all(map(find_spec, ("torch", "transformers"))):
        return [controls[0], "starter", *controls[1:]]
    hint = install_hint("models")
    print(f"note: skipping the starter model, which needs torch; {hint}", file=sys.stderr)
    return controls


def _have_oracle(tasks: Mapping[str, Task]) -> bool:
    """Return whether a task has an oracle, as all do but plain environments of Gymnasium."""
    envs = (make(task.env, **task.settings).unwrapped for task in tasks.values())
    return not all(isinstance(env, TextWrapper) for env in envs)


def check_ability(agents: Collection[str], tasks: Mapping[str, Task]) -> None:
    """Raise `RagenError` if the oracle can play nothing, or a text-only agent is to play with pictures."""
    if "oracle" in agents and not _have_oracle(tasks):
        raise RagenError("agent 'oracle' cannot play, as no game here has an oracle; leave it out")
    for name, task in tasks.items():
        if task.settings.get("observation") != IMAGE:
            continue
        for agent in agents:
            if is_local_model(agent):
                raise RagenError(f"agent '{agent}' is text-only, but task '{name}' shows pictures")


@dataclass(frozen=True)
class Remote:
    """Settings of agents that are not local models."""

    settings: EndpointSettings = field(default_factory=EndpointSettings)
    connection: Connection = field(default_factory=Connection)
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the endpoint's key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with the values of further headers, by header."""


def make_policies(
    agents: Iterable[str], sampling: SamplingSettings, remote: Remote
) -> dict[str, Policy | AsyncPolicy]:
    """Make the policies of agents. Called only for agents with episodes left to play."""
    decoding = Sampling(sampling.temperature, sampling.max_tokens, tuple(remote.settings.stop))
    return {agent: _make(agent, decoding, remote) for agent in agents}


def _make(agent: str, sampling: Sampling, remote: Remote) -> Policy | AsyncPolicy:
    if is_python_agent(agent):
        return load_agent(agent, remote.connection.concurrency)
    if agent.startswith(OPENAI):
        from ragen_agents.policies.endpoint.policy import EndpointPolicy

        key = read_key(remote.settings.base_url, remote.api_key_env, remote.headers)
        model = agent.removeprefix(OPENAI)
        return EndpointPolicy(agent, model, sampling, remote.settings, key, remote.connection)
    try:
        return make_policy(agent, sampling)
    except UnknownAgentError as error:
        if remote.settings.base_url != OPENAI_URL:
            raise UnknownAgentError(
                f"unknown agent '{agent}'; a model behind an endpoint is --agent {OPENAI}{agent}"
            ) from None
        raise UnknownAgentError(
            f"{error}; {OPENAI}MODEL is a model behind an endpoint, package.module:Agent your own class"
        ) from None
