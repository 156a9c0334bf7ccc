"""Options that several commands share, and what the shell completes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from ragen_bench.console.formats import Format

_OUTPUT: Final = "Output"
RAY: Final = "Ray"

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
UncheckedOption: TypeAlias = Annotated[
    bool, typer.Option("--unchecked", help="Read a run whose files were edited after they were written.")
]
FormatOption: TypeAlias = Annotated[
    Format,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=_OUTPUT,
        help="Format of the table: table, markdown, csv or json.",
    ),
]
WideOption: TypeAlias = Annotated[
    bool,
    typer.Option("--wide", rich_help_panel=_OUTPUT, help="Show all columns, however narrow the terminal is."),
]
SettingOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=VALUE",
        help="Setting of the conversation or the game, such as think=false; may be repeated.",
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER",
        rich_help_panel=_OUTPUT,
        help="Print the success by an exact number of each level, such as solution_length, and the 50% "
        "horizon.",
    ),
]
BackendOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="local|ray",
        rich_help_panel=RAY,
        help="ray: on the cluster at RAY_ADDRESS, or on this machine if that is not set.",
    ),
]
EntriesOption: TypeAlias = Annotated[Path, typer.Option(metavar="DIR", help="Folder of all entries.")]
RunDirectoryOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Run directory.", show_default="under runs/")
]
RecipeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Tested recipe in place of a game: frozenlake, sokoban, smollm2-bandit or smollm2-sokoban; "
        "or a YAML file."
    ),
]


_MODELS: Final = (
    "starter", "small-ice", "small-lake", "small-sokoban", "small-thoughts", "smollm2",
    "gemma3-270m", "hf:", "openai:", "vllm:",
)  # fmt: skip


def complete_game(incomplete: str) -> list[str]:
    """Return the games whose short name begins like this, in lower case if it does so only there."""
    from ragen_bench.config.game_names import short_names
    from ragen_envs.registration import text_ids

    return _beginning(incomplete, short_names(text_ids()))


def complete_agent(incomplete: str) -> list[str]:
    """Return the kinds of agents that begin like this."""
    from ragen_agents.policies import CONTROLS, SHOP_RULES

    return _beginning(incomplete, (*CONTROLS, *SHOP_RULES, *_MODELS))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    spelled = [name if name.startswith(incomplete) else name.lower() for name in names]
    return [name for name in spelled if name.startswith(incomplete)]
