"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ragen_bench.console.formats import Format

RunArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
FormatOption: TypeAlias = Annotated[
    Format, typer.Option("--format", help="How the table is printed.")
]
EntriesOption: TypeAlias = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of all entries.")
]
