"""``ragen bench``: play agents on a suite and print the table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.options import FormatOption
from ragen_bench.formats import Format

if TYPE_CHECKING:
    from ragen_bench.configs import RunConfig

DEFAULT_AGENTS = ["random", "starter", "oracle"]


def bench(
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="random, noop, oracle, starter, the folder of a saved model, or hf:NAME; "
            "may be given several times.  [default: random, starter, oracle]"
        ),
    ] = None,
    suite: Annotated[str, typer.Option(help="Name of a suite, or path of its YAML file.")] = "core",
    episodes: Annotated[
        int | None, typer.Option(metavar="N", help="Levels of each game, instead of the suite's.")
    ] = None,
    game: Annotated[
        list[str] | None,
        typer.Option(help="Only this game of the suite, or the text id of any; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Run directory.  [default: under runs/]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of the agents' draws, not the levels'.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with a run directory that is there, or refuse to.")
    ] = True,
    style: FormatOption = Format.TABLE,
) -> None:
    """Play agents on the frozen levels of a suite and print the table.

    A run directory that is there already is gone on with: nothing is lost or played twice.
    """
    from ragen_bench.agents import normalise_agents
    from ragen_bench.cli.show import print_run
    from ragen_bench.configs import CONFIG, default_directory, make_config
    from ragen_bench.suites import adapt_suite, check_suite, load_suite
    from ragen_envs.errors import RagenError

    chosen = adapt_suite(load_suite(suite), episodes, seed, game)
    check_suite(chosen)
    config = make_config(chosen, normalise_agents(agent or DEFAULT_AGENTS))
    folder = out or default_directory(config)
    if not resume and (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' holds a run already; leave --no-resume out to go on with it")
    _play(folder, config)
    print_run(folder, style)
    print(f"run: {folder}", file=sys.stderr)


def _play(folder: Path, config: "RunConfig") -> None:
    """Play what is missing. Models are loaded first, so that a failure to leaves nothing behind."""
    from ragen_bench.agents import make_policies
    from ragen_bench.progress import RunProgress
    from ragen_bench.runner import play_run
    from ragen_bench.runs import RunDirectory, missing_agents

    try:
        policies = make_policies(missing_agents(folder, config), config.suite.sampling)
        with RunDirectory(folder, config) as run:
            total = len(config.keys)
            with RunProgress(len(run.done), total) as progress:
                play_run(run, policies, progress)
    except KeyboardInterrupt:
        print(f"\ninterrupted; what is done is in {folder}, and the same command goes on",
              file=sys.stderr)  # fmt: skip
        raise typer.Exit(130) from None
