"""The options of ``ragen bench`` and ``ragen match``: who plays, how, and what it may cost."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

_AGENTS: Final = (
    "random, noop, oracle, starter, the folder of a saved model, hf:NAME, openai:MODEL behind an "
    "endpoint, or package.module:Agent; may be given several times.  "
)

BenchAgents: TypeAlias = Annotated[
    list[str] | None, typer.Option(help=f"{_AGENTS}[default: random, starter, oracle]")
]
MatchAgents: TypeAlias = Annotated[
    list[str] | None, typer.Option(help=f"{_AGENTS}[default: random, noop, oracle]")
]
SuiteName: TypeAlias = Annotated[
    str, typer.Option(help="Name of a suite, or path of its YAML file.")
]
Episodes: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="Levels of each game, instead of the suite's.")
]
Games: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Only this game of the suite, or the text id of any; may be repeated."),
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Run directory.  [default: under runs/]")
]
Seed: TypeAlias = Annotated[
    int | None, typer.Option(metavar="S", help="Seed of the agents' draws, not the levels'.")
]
Temperature: TypeAlias = Annotated[
    float | None,
    typer.Option(metavar="T", help="Of language models, instead of the suite's; 0 is greedy."),
]
MaxReplyTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Most tokens of one reply, instead of the suite's."),
]
Resume: TypeAlias = Annotated[
    bool, typer.Option(help="Go on with a run directory that is there, or refuse to.")
]

_ENDPOINTS: Final = "Endpoints"
_BUDGETS: Final = "Budgets"

BaseUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        envvar="OPENAI_BASE_URL",
        metavar="URL",
        rich_help_panel=_ENDPOINTS,
        help="Endpoint of openai:MODEL, such as http://localhost:8000/v1.  [default: OpenAI's]",
    ),
]
KeyVariable: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_ENDPOINTS,
        help="Environment variable that holds the endpoint's key.",
    ),
]
Stop: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        rich_help_panel=_ENDPOINTS,
        help="Text at which the model stops; may be repeated.",
    ),
]
ExtraBody: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        rich_help_panel=_ENDPOINTS,
        help="Merged into every request; null takes a field out.",
    ),
]
Timeout: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="TIME", rich_help_panel=_ENDPOINTS, help="Longest wait for one answer: 90s, 10m."
    ),
]
Tries: TypeAlias = Annotated[
    int,
    typer.Option(
        metavar="N", rich_help_panel=_ENDPOINTS, help="How often a request is sent at most."
    ),
]
Concurrency: TypeAlias = Annotated[
    int,
    typer.Option(
        metavar="N",
        rich_help_panel=_ENDPOINTS,
        help="Episodes in flight at most, also of Python agents.",
    ),
]
CacheFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FILE",
        rich_help_panel=_ENDPOINTS,
        help="Keep replies in this file, and ask for none twice.  [default: in the run directory "
        "at temperature 0, else nowhere]",
    ),
]
NoCache: TypeAlias = Annotated[
    bool, typer.Option("--no-cache", rich_help_panel=_ENDPOINTS, help="Keep no replies.")
]
MaxCost: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="MONEY",
        rich_help_panel=_BUDGETS,
        help="Most that the run may cost; needs --prices.",
    ),
]
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=_BUDGETS, help="Most tokens of prompts and replies of the run."
    ),
]
MaxTime: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TIME", rich_help_panel=_BUDGETS, help="Stop after 90s, 10m or 1.5h."),
]
Prices: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_BUDGETS,
        help="YAML: MODEL: {input: …, output: …}, for a million tokens.",
    ),
]
