"""Single options that several commands share."""

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from ragen_bench.console.formats import Format

_OUTPUT: Final = "Output"
RAY: Final = "Ray"

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
UncheckedOption: TypeAlias = Annotated[
    bool,
    typer.Option("--unchecked", help="Read a run whose files were edited after they were written."),
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
    typer.Option(
        "--wide",
        rich_help_panel=_OUTPUT,
        help="Show all columns, however narrow the terminal is.",
    ),
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
EntriesOption: TypeAlias = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of all entries.")
]
RunDirectoryOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Run directory.", show_default="under runs/")
]
RecipeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="A tested recipe, in place of a game: sokoban, smollm2-bandit or smollm2-sokoban."
    ),
]
