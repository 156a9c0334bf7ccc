"""``ragen bench``: play agents on a suite and print the table."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.options import RAY, BackendOption, ByOption
from ragen_bench.cli.run_options import (
    BenchAgents,
    BudgetOptions,
    EndpointOptions,
    RunOptions,
    SuiteName,
)
from ragen_envs.errors import install_hint


@expand_groups
def bench(
    agent: BenchAgents = None,
    suite: SuiteName = "core",
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Play the levels of this file, or corridors, with the one --game: all of them unless "
            "--episodes is given.",
            show_default="those of the suite",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT",
            help="train, validation or test levels.",
            show_default="that of the suite: test",
        ),
    ] = None,
    by: ByOption = None,
    attempts: Annotated[
        int,
        typer.Option(
            min=1, max=1024, metavar="N", help="Attempts at each level, for pass@N and pass^N."
        ),
    ] = 1,
    backend: BackendOption = "local",
    gpus: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            rich_help_panel=RAY,
            help="GPUs that each chunk of levels requests from Ray: a whole number, or a fraction.",
            show_default="0",
        ),
    ] = None,
) -> None:
    """Play agents on the frozen levels of a suite and print the table.

    An existing run directory is resumed: no episode is lost or played twice.
    """
    from ragen_bench.api.evaluate import evaluate
    from ragen_bench.cli.run_and_report import run_and_report
    from ragen_bench.cli.show import print_run

    def play() -> tuple[Path, str | None]:
        run = evaluate(
            agent or default_agents(),
            suite=suite,
            levels=levels,
            split=split,
            attempts=attempts,
            **options.arguments,
            **vars(endpoint.parsed),
            **vars(limits),
            backend=backend,
            gpus=gpus,
        )
        return run.folder, run.stopped

    run_and_report(play, lambda folder: print_run(folder, options.style, options.wide, by))


def default_agents() -> list[str]:
    """Return the controls and the starter, which is left out where its packages are missing."""
    if all(map(find_spec, ("torch", "transformers"))):
        return ["random", "starter", "oracle"]
    hint = install_hint("models")
    print(f"note: skipping the starter model, which needs torch; {hint}", file=sys.stderr)
    return ["random", "oracle"]
