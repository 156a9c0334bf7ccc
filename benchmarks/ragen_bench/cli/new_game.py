"""``ragen new-game``: start a game of one's own."""

from pathlib import Path
from typing import Annotated

import typer


def new_game(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as tower_of_hanoi.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to.  [default: ./NAME]")
    ] = None,
) -> None:
    """Write the package of a new game, with tests and a page, to be changed into your own."""
    from ragen_bench.new_game.create import new_game

    folder = out or Path(name)
    for path in new_game(name, folder):
        print(folder / path)
    print(f"\ncd {folder} && python -m pytest   # then read README.md")
