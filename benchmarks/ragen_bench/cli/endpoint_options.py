"""The endpoint, the budget and the cache that the options of a command stand for."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ragen_agents.policies.endpoint.settings import (
    OPENAI_URL,
    Connection,
    EndpointSettings,
    check_base_url,
)
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.run_files.yaml_files import check_depth, validate
from ragen_bench.cli.run_options import BudgetOptions, EndpointOptions
from ragen_bench.config.agents import OPENAI, Remote
from ragen_bench.config.run_config import BaseConfig
from ragen_bench.config.suites import SamplingSettings
from ragen_bench.evaluation.spending import Budget, load_prices, price_of, read_duration
from ragen_envs.errors import RagenError

RESPONSES = "responses.sqlite"

_OF_ENDPOINTS: Final = (
    "api_key_env", "stop", "extra_body", "tools", "timeout", "max_retries", "cache", "no_cache"
)  # fmt: skip
"""Fields of `EndpointOptions` that only agents behind an endpoint read. The URL is not among them, since an
environment variable may set it for all commands."""
_PAID: Final = "openai:MODEL or package.module:Agent"
"""Agents that are not local models, whose replies may cost something."""


def make_remote(options: EndpointOptions, agents: Sequence[str]) -> Remote:
    """Return how agents that are not local models are queried.

    Raises:
        RagenError: An option has a wrong value, or concerns none of the agents.
    """
    data = {
        "base_url": check_base_url(options.base_url or OPENAI_URL),
        "stop": options.stop or [],
        "extra_body": _read_json(options.extra_body or "{}"),
        "tools": options.tools,
    }
    settings = validate(EndpointSettings, data, "endpoint")
    timeout = read_duration(options.timeout)
    connection = Connection(timeout, options.max_retries, options.concurrency)
    if not any(agent.startswith(OPENAI) for agent in agents):
        _refuse(options, _OF_ENDPOINTS, "openai:MODEL", "leave it out")
    if not any(map(_is_paid, agents)):
        _refuse(options, ["concurrency"], _PAID, "leave it out")
    return Remote(settings, connection, options.api_key_env)


def _refuse(
    options: EndpointOptions | BudgetOptions, fields: Iterable[str], agents: str, advice: str
) -> None:
    """Raise `RagenError` if one of the fields was set, as no agent reads it."""
    for field in fields:
        if getattr(options, field) != getattr(type(options), field):
            option = field.replace("_", "-")
            raise RagenError(f"--{option} is for agents {agents}, but there is none; {advice}")


def _read_json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RagenError(f"--extra-body must be a JSON object: {error}") from None
    check_depth(found, "--extra-body")
    return found


def make_budget(config: BaseConfig, options: BudgetOptions) -> Budget:
    """Return what a run may spend; its time starts now.

    Raises:
        RagenError: An option has a wrong value, or an agent whose cost is limited has no price.
    """
    known = {} if options.prices is None else load_prices(options.prices)
    paid = [agent.name for agent in config.agents if _is_paid(agent.name)]
    missing = [name for name in paid if price_of(name, known) is None]
    if options.cost_limit is not None and missing:
        raise RagenError(_without_price(missing, options.prices))
    if not paid:
        advice = "limit local models with --time-limit or --max-reply-tokens"
        _refuse(options, ["token_limit", "cost_limit"], _PAID, advice)
        _refuse(options, ["prices"], _PAID, "leave it out")
    seconds = None if options.time_limit is None else read_duration(options.time_limit)
    return Budget(options.cost_limit, options.token_limit, seconds, known)


def _without_price(agents: list[str], prices: Path | None) -> str:
    """Return what to write down for agents whose price is not known."""
    models = [agent.removeprefix(OPENAI) for agent in agents]
    lines = " and ".join(f"{model}: {{input: …, output: …}}" for model in models)
    named = ", ".join(f"'{model}'" for model in models)
    if prices is None:
        return f"--cost-limit needs the price of {named}: pass --prices FILE with the line {lines}"
    return f"--cost-limit: '{prices}' has no price for {named}; add {lines}"


def _is_paid(agent: str) -> bool:
    return agent.startswith(OPENAI) or is_python_agent(agent)


def cache_file(options: EndpointOptions, folder: Path, sampling: SamplingSettings) -> Path | None:
    """Return the file of the reply cache: by default in the run directory, and only for greedy decoding.

    Raises:
        RagenError: The options name a file and also turn the cache off.
    """
    if options.cache is not None and options.no_cache:
        raise RagenError("--cache and --no-cache contradict each other; use only one of them")
    if options.cache is not None or options.no_cache:
        return options.cache
    return folder / RESPONSES if sampling.temperature == 0 else None
