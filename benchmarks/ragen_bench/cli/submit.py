"""``ragen submit``: turn a run into a leaderboard entry."""

from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import EntriesOption


def submit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="RUN or RUN:AGENT.")],
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML: name, title, model, authors, description, contamination, trained_on, links.",
            show_default="that of the agent's existing entry",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Training run of the agent, for its curves.",
            show_default="those of the agent's existing entry",
        ),
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
) -> None:
    """Turn an agent's run into a leaderboard entry and check it as ragen leaderboard check does."""
    from ragen_bench.console.row_bar import bar
    from ragen_bench.evaluation.comparison import read_side
    from ragen_bench.leaderboard.submission import read_description, read_training, submit

    side = read_side(run)
    words = read_description(about, entries, side.agent)
    curves = read_training(training, entries, side.agent)
    with bar(f"checking {words.name}") as tick:
        print(submit(side, words, curves, entries, tick))
