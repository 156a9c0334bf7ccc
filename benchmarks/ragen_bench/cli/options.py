"""Single options that several commands share."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ragen_bench.console.formats import Format

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
FormatOption: TypeAlias = Annotated[
    Format,
    typer.Option(
        "--format", metavar="FORMAT", help="Format of the table: table, markdown, csv or json."
    ),
]
WideOption: TypeAlias = Annotated[
    bool, typer.Option("--wide", help="Show all columns, however narrow the terminal is.")
]
SettingOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=VALUE",
        help="Setting of the conversation or the game, such as think=false; may be repeated.",
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
ResumeOption: TypeAlias = Annotated[
    bool, typer.Option(help="Resume an existing run directory, or exit with an error.")
]
