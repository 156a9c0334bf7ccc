"""The options of ``ragen bench`` and ``ragen match``: what is played, by which agents, at what cost."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from ragen_bench.cli.options import (
    FormatOption,
    RunDirectoryOption,
    SettingOption,
    WideOption,
    complete_agent,
    complete_game,
)
from ragen_bench.console.formats import Format
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.evaluation.options import Endpoint

_AGENTS: Final = (
    "random, noop, oracle, starter, smollm2, the folder of a saved model, FILE.gguf, hf:NAME, "
    "openai:MODEL behind an endpoint, or module:Agent, your own class; may be repeated."
)
_endpoint: Final = partial(typer.Option, rich_help_panel="Endpoints")
_budget: Final = partial(typer.Option, rich_help_panel="Budgets")

BenchAgents: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help=_AGENTS, show_default="random, starter, oracle", autocompletion=complete_agent),
]
MatchAgents: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help=_AGENTS, show_default="random, noop, oracle", autocompletion=complete_agent),
]
SuiteName: TypeAlias = Annotated[str, typer.Option(help="Name of a suite, or path of a YAML file.")]


@dataclass(frozen=True)
class RunOptions:
    """Options of the games, the sampling and the run directory."""

    episodes: Annotated[
        int | None, typer.Option(metavar="N", help="Number of levels per game, instead of the suite's.")
    ] = None
    game: Annotated[
        list[str] | None,
        typer.Option(
            help="Play only this game: one of the suite, or any other by its name or id; may be repeated.",
            autocompletion=complete_game,
        ),
    ] = None
    setting: SettingOption = None
    out: RunDirectoryOption = None
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of the agents' sampling; the levels stay the same.")
    ] = None
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T", help="Sampling temperature of language models, instead of the suite's; 0 is greedy."
        ),
    ] = None
    max_reply_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum tokens per reply, instead of the suite's.")
    ] = None
    retry_errors: Annotated[
        bool,
        typer.Option(
            "--retry-errors",
            help="Retry episodes that ended in an error or exceeded the model's context; the old "
            "records are kept in errors.jsonl.",
        ),
    ] = False
    style: FormatOption = Format.TABLE
    wide: WideOption = False

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the command line changes in every task."""
        from ragen_bench.config.overrides import read_overrides

        return read_overrides(self.setting or [])

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `ragen_bench.evaluate` that these options stand for."""
        kept = ("episodes", "settings", "seed", "temperature", "max_reply_tokens", "out", "retry_errors")
        return {"games": self.game or (), **{name: getattr(self, name) for name in kept}}

    @property
    def sampling(self) -> dict[str, float | None]:
        """The fields of the suite's sampling settings that the command line replaces."""
        return {"temperature": self.temperature, "max_tokens": self.max_reply_tokens}


@dataclass(frozen=True)
class EndpointOptions:
    """Options of agents behind endpoints."""

    base_url: Annotated[
        str | None,
        _endpoint(
            envvar="OPENAI_BASE_URL",
            metavar="URL",
            help="Endpoint of openai:MODEL, such as http://localhost:8000/v1.",
            show_default="OpenAI's",
        ),
    ] = None
    api_key_env: Annotated[
        str, _endpoint(metavar="NAME", help="Environment variable that holds the endpoint's key.")
    ] = "OPENAI_API_KEY"
    header: Annotated[
        list[str] | None,
        _endpoint(
            metavar="NAME=ENV",
            help="Further header, whose value an environment variable holds; may be repeated.",
        ),
    ] = None
    stop: Annotated[
        list[str] | None,
        _endpoint(
            metavar="TEXT", help="Text at which a model's replies end, such as '</answer>'; may be repeated."
        ),
    ] = None
    extra_body: Annotated[
        str | None, _endpoint(metavar="JSON", help="Merged into every request; null removes a field.")
    ] = None
    tools: Annotated[
        bool, _endpoint("--tools", help="Let the model act through tool calls instead of text.")
    ] = False
    system: Annotated[
        str,
        _endpoint(
            metavar="role|merge",
            help="merge: the system message begins the first user message, for models without its role.",
        ),
    ] = "role"
    timeout: Annotated[
        str, _endpoint(metavar="TIME", help="Maximum time per request, such as 90s or 10m.")
    ] = "3m"
    max_retries: Annotated[
        int, _endpoint(metavar="N", help="Maximum number of times a failed request is sent again.")
    ] = 9
    concurrency: Annotated[
        int, _endpoint(metavar="N", help="Maximum number of concurrent episodes, also of Python agents.")
    ] = 32
    cache: Annotated[
        Path | None,
        _endpoint(
            metavar="FILE",
            help="Cache replies in this file, so that no request is sent twice.",
            show_default="in the run directory",
        ),
    ] = None
    no_cache: Annotated[bool, _endpoint("--no-cache", help="Do not cache replies.")] = False

    @property
    def parsed(self) -> "Endpoint":
        """The endpoint that these options describe."""
        from ragen_bench.evaluation.options import Endpoint

        given = vars(self) | {"extra_body": _read_json(self.extra_body)}
        given["headers"] = _read_headers(given.pop("header"))
        if given.pop("no_cache"):
            if self.cache is not None:
                raise RagenError("--cache and --no-cache contradict each other; use only one of them")
            given["cache"] = False
        return Endpoint(**given)


def _read_json(text: str | None) -> dict[str, Any] | None:
    from ragen_agents.run_files.yaml_files import check_depth

    if text is None:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RagenError(f"--extra-body must be a JSON object: {error}") from None
    check_depth(data, "--extra-body")
    if not isinstance(data, dict):
        raise RagenError("--extra-body must be a JSON object")
    return data


def _read_headers(texts: list[str] | None) -> dict[str, str] | None:
    for text in texts or ():
        if not all(text.partition("=")):
            raise RagenError("--header must be NAME=ENVIRONMENT_VARIABLE, without a value")
    return None if texts is None else dict(text.split("=", 1) for text in texts)


@dataclass(frozen=True)
class BudgetOptions:
    """Limits of a run's cost, tokens and time."""

    cost_limit: Annotated[
        float | None, _budget(metavar="MONEY", help="Maximum cost of the run; needs --prices.")
    ] = None
    token_limit: Annotated[
        int | None, _budget(metavar="N", help="Maximum tokens of the run, prompts and replies together.")
    ] = None
    time_limit: Annotated[
        str | None, _budget(metavar="TIME", help="Stop after this time: 90s, 10m or 1.5h.")
    ] = None
    prices: Annotated[
        Path | None,
        _budget(metavar="FILE", help="YAML: MODEL: {input: …, output: …}, the price of a million tokens."),
    ] = None
