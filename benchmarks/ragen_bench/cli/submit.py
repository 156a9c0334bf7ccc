"""``ragen submit``: turn a run into a leaderboard entry."""

import sys
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
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing entry without asking.")
    ] = False,
) -> None:
    """Turn an agent's run into a leaderboard entry and check it as ragen leaderboard check does."""
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.comparison import read_side
    from ragen_bench.leaderboard.submission import read_description, read_training, submit

    side = read_side(run)
    words = read_description(about, entries, side.agent)
    curves = read_training(training, entries, words.name)
    if not replace:
        _ask(entries / words.name)
    with bar(f"checking {words.name}") as tick:
        folder = submit(side, words, curves, entries, tick)
    print(folder)
    print(f"see it with: ragen leaderboard build --entries {entries}\n"
          f"publish it with a pull request that adds {folder}", file=sys.stderr)  # fmt: skip


def _ask(folder: Path) -> None:
    """Raise unless an existing entry may be replaced."""
    from ragen_envs.errors import RagenError

    if not folder.exists():
        return
    if not sys.stdin.isatty():
        raise RagenError(f"'{folder}' already exists; --replace replaces it")
    typer.confirm(f"Replace '{folder}'?", abort=True)
