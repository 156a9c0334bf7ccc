"""The options of ``ragen bench`` for agents behind endpoints, and for what they may cost."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

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
