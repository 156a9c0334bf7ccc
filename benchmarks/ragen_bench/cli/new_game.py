"""``ragen new-game``: start a new game."""

from pathlib import Path
from typing import Annotated

import typer


def new_game(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the package, such as tower_of_hanoi.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder.", show_default="./NAME"),
    ] = None,
    text: Annotated[
        bool,
        typer.Option("--text", help="Make a game whose actions are words, such as search[shoes]."),
    ] = False,
) -> None:
    """Create the package of a new game, with tests and documentation, as a starting point."""
    from ragen_bench.new_game.create import new_game

    folder = out or Path(name)
    for path in new_game(name, folder, words=text):
        print(folder / path)
    print(f"\ncd {folder} && python -m pytest   # then read README.md")
