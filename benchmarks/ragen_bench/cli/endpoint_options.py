"""What the words of the command line mean for agents behind endpoints and for what they may cost."""

import json
from pathlib import Path

from ragen_agents.policies.endpoint.settings import (
    OPENAI_URL,
    Connection,
    EndpointSettings,
    check_base_url,
)
from ragen_agents.policies.python_agent import is_python_agent
from ragen_bench.config.agents import OPENAI, Remote
from ragen_bench.config.run_config import BaseConfig
from ragen_bench.config.suites import SamplingSettings
from ragen_bench.config.yaml_files import validate
from ragen_bench.evaluation.budget import Budget, read_duration
from ragen_bench.evaluation.spending import load_prices, price_of
from ragen_envs.errors import RagenError

RESPONSES = "responses.sqlite"


def make_remote(
    base_url: str | None,
    key_variable: str,
    stop: list[str] | None,
    extra_body: str | None,
    timeout: str,
    tries: int,
    concurrency: int,
) -> Remote:
    """Return how agents are asked that do not run here as models.

    Raises:
        RagenError: A word is not what it must be.
    """
    data = {
        "base_url": check_base_url(base_url or OPENAI_URL),
        "stop": stop or [],
        "extra_body": _read_json(extra_body or "{}"),
    }
    settings = validate(EndpointSettings, data, "endpoint")
    return Remote(settings, Connection(read_duration(timeout), tries, concurrency), key_variable)


def _read_json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RagenError(f"--extra-body must be a JSON object: {error}") from None


def make_budget(
    config: BaseConfig,
    cost: float | None,
    tokens: int | None,
    duration: str | None,
    prices: Path | None,
) -> Budget:
    """Return what a run may spend; its time begins now.

    Raises:
        RagenError: A word is not what it must be, or an agent whose cost is limited has no price.
    """
    known = {} if prices is None else load_prices(prices)
    asked = [agent.name for agent in config.agents if _is_paid(agent.name)]
    missing = [name for name in asked if price_of(name, known) is None]
    if cost is not None and missing:
        raise RagenError(f"--max-cost needs the price of {', '.join(missing)}; add it to --prices")
    seconds = None if duration is None else read_duration(duration)
    return Budget(cost, tokens, seconds, known)


def _is_paid(agent: str) -> bool:
    return agent.startswith(OPENAI) or is_python_agent(agent)


def cache_file(
    chosen: Path | None, never: bool, folder: Path, sampling: SamplingSettings
) -> Path | None:
    """Return where replies are kept: by default in the run, and only where the same are expected.

    Raises:
        RagenError: Both a file and no cache are asked for.
    """
    if chosen is not None and never:
        raise RagenError("--cache and --no-cache contradict each other; leave one out")
    if chosen is not None or never:
        return chosen
    return folder / RESPONSES if sampling.temperature == 0 else None
