"""``ragen submit``: make a leaderboard entry of a run."""

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
            help="YAML: name, title, model, authors, description, contamination, trained_on, links. "
            " [default: the words of the agent's entry, if there is one]",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="The training run that made the agent, for its curves. "
            " [default: those of the agent's entry, if there is one]",
        ),
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
) -> None:
    """Make a leaderboard entry of an agent's run, and check it as a stranger would."""
    from ragen_bench.console.row_bar import bar
    from ragen_bench.evaluation.comparison import read_side
    from ragen_bench.leaderboard.submission import read_training, read_words, submit

    side = read_side(run)
    words = read_words(about, entries, side.agent)
    curves = read_training(training, entries, side.agent)
    with bar(f"checking {words.name}") as tick:
        print(submit(side, words, curves, entries, tick))
