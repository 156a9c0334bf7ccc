"""The endpoint, the budget and the cache that the options of a run stand for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ragen_agents.policies import AsyncPolicy
from ragen_agents.policies.endpoint.settings import (
    KEY_VARIABLE,
    OPENAI_URL,
    Connection,
    EndpointSettings,
    check_base_url,
    check_secrets,
)
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.run_files.yaml_files import validate
from ragen_bench.config.agents import OPENAI, LiveAgent, Remote, is_local_model
from ragen_bench.config.run_config import BaseConfig
from ragen_bench.evaluation.spending import Budget, load_prices, price_of, read_duration
from ragen_envs.errors import RagenError

RESPONSES = "responses.sqlite"

_OF_ENDPOINTS: Final = (
    "api_key_env", "headers", "extra_body", "tools", "system", "timeout", "max_retries", "cache",
)  # fmt: skip
"""Fields of `Endpoint` that only agents behind an endpoint read. The URL is not among them, since an
environment variable may set it for all commands."""
_PAID: Final = "openai:MODEL or package.module:Agent"
"""Agents that are not local models, whose replies may cost something."""


@dataclass(frozen=True)
class Endpoint:
    """Settings of agents behind endpoints; `ragen_bench.evaluate` describes the fields."""

    base_url: str | None = None
    api_key_env: str = KEY_VARIABLE
    headers: Mapping[str, str] | None = None
    stop: Sequence[str] | None = None
    extra_body: Mapping[str, Any] | None = None
    tools: bool = False
    system: str = "role"
    timeout: float | str = "3m"
    max_retries: int = 9
    concurrency: int = 32
    cache: str | Path | bool | None = None


@dataclass(frozen=True)
class Limits:
    """Limits of a run; `ragen_bench.evaluate` describes the fields."""

    cost_limit: float | None = None
    token_limit: int | None = None
    time_limit: float | str | None = None
    prices: str | Path | None = None


_NO_LIVE: Final[Mapping[str, LiveAgent]] = MappingProxyType({})


def make_remote(options: Endpoint, agents: Sequence[str], live: Mapping[str, LiveAgent] = _NO_LIVE) -> Remote:
    """Return the settings of agents that are not local models.

    Args:
        options: As the caller gave them.
        agents: Names of all agents.
        live: Those that are objects of this process, by name.

    Raises:
        RagenError: A setting is wrong, or no agent reads it.
    """
    has_endpoint = any(agent.startswith(OPENAI) for agent in agents)
    url = options.base_url or OPENAI_URL
    data = {
        # An environment variable may set the URL for all commands, also for those without an endpoint.
        "base_url": check_base_url(url) if has_endpoint else url,
        "stop": list(options.stop or ()),
        "extra_body": dict(options.extra_body or {}),
        "tools": options.tools,
        "system": options.system,
    }
    settings = validate(EndpointSettings, data, "endpoint")
    check_secrets(settings.extra_body)
    timeout = read_duration("--timeout", options.timeout)
    connection = Connection(timeout, options.max_retries, options.concurrency)
    if not has_endpoint:
        _refuse(options, _OF_ENDPOINTS, "openai:MODEL", "leave it out")
        if not any(agent not in live and is_local_model(agent) for agent in agents):
            _refuse(options, ["stop"], "openai:MODEL and local models", "leave it out")
    if not _paid(agents, live):
        _refuse(options, ["concurrency"], _PAID, "leave it out")
    return Remote(settings, connection, options.api_key_env, options.headers or {})


def _refuse(options: Endpoint | Limits, fields: Iterable[str], agents: str, advice: str) -> None:
    """Raise `RagenError` if one of the fields was set, as no agent reads it."""
    for field in fields:
        if getattr(options, field) != getattr(type(options), field):
            is_off = field == "cache" and getattr(options, field) is False
            option = "no-cache" if is_off else field.replace("_", "-").replace("headers", "header")
            raise RagenError(f"--{option} is for agents {agents}, but there is none; {advice}")


def make_budget(config: BaseConfig, options: Limits, live: Mapping[str, LiveAgent] = _NO_LIVE) -> Budget:
    """Return the budget of a run; its time starts now.

    Args:
        config: The run.
        options: As the caller gave them.
        live: Agents that are objects of this process, by name.

    Raises:
        RagenError: A price is missing, or a limit counts the tokens of no agent.
    """
    known = {} if options.prices is None else load_prices(Path(options.prices))
    paid = _paid([agent.name for agent in config.agents], live)
    missing = [name for name in paid if price_of(name, known) is None]
    if options.cost_limit is not None and missing:
        raise RagenError(_without_price(missing, options.prices))
    if not paid:
        advice = "limit local models with --time-limit or --max-reply-tokens"
        _refuse(options, ["token_limit", "cost_limit"], _PAID, advice)
        _refuse(options, ["prices"], _PAID, "leave it out")
    seconds = None if options.time_limit is None else read_duration("--time-limit", options.time_limit)
    return Budget(options.cost_limit, options.token_limit, seconds, known)


def _without_price(agents: list[str], prices: str | Path | None) -> str:
    models = [agent.removeprefix(OPENAI) for agent in agents]
    lines = " and ".join(f"{model}: {{input: …, output: …}}" for model in models)
    named = ", ".join(f"'{model}'" for model in models)
    if prices is None:
        return f"--cost-limit needs the price of {named}: pass --prices FILE with the line {lines}"
    return f"--cost-limit: '{prices}' has no price for {named}; add {lines}"


def _paid(agents: Iterable[str], live: Mapping[str, LiveAgent]) -> list[str]:
    """Return the agents whose tokens are counted while they play."""
    return [
        agent
        for agent in agents
        if (
            isinstance(live[agent].policy, AsyncPolicy)
            if agent in live
            else agent.startswith(OPENAI) or is_python_agent(agent)
        )
    ]


def cache_file(options: Endpoint, folder: Path) -> Path | None:
    """Return the file of the reply cache, by default in the run directory."""
    if options.cache is None or options.cache is True:
        return folder / RESPONSES
    return None if options.cache is False else Path(options.cache)
