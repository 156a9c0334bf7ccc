"""``ragen sweep``: play fixed models along the axes of a sweep."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.run_options import BenchAgents, BudgetOptions, EndpointOptions, RunOptions
from ragen_bench.console.formats import Format, Grid, print_table
from ragen_envs.errors import install_hint


@expand_groups
def sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP", help="diversity, freshness, granularity, or the path of a YAML file."
        ),
    ],
    agent: BenchAgents = None,
    *,
    options: RunOptions,
    endpoint: EndpointOptions,
    limits: BudgetOptions,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, metavar="N", help="Attempts at each level.", show_default="the sweep's"
        ),
    ] = None,
    level_seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Seed of the levels that are drawn now.",
            show_default="the date",
        ),
    ] = None,
) -> None:
    """Play agents, without training, with different granularity, forms of the levels, or freshness.

    Points are compared on the same levels, beside random play and the optimum. A
    training run stands for its checkpoints. ragen train-sweep trains instead.

    An existing run directory is resumed: no episode is lost or played twice.
    """
    from ragen_bench.api.sweep import SweepRun
    from ragen_bench.api.sweep import sweep as play_sweep
    from ragen_bench.cli.bench import default_agents
    from ragen_bench.cli.run_and_report import run_and_report

    played: list[SweepRun] = []

    def play() -> tuple[Path, str | None]:
        run = play_sweep(
            name,
            agent or default_agents(),
            attempts=attempts,
            level_seed=level_seed,
            **options.arguments,
            **vars(endpoint.parsed),
            **vars(limits),
        )
        played.append(run)
        return run.folder, run.stopped

    def show(folder: Path) -> int:
        (run,) = played
        table, shares = run.table(), run.shares()
        if options.style in (Format.CSV, Format.JSON):
            facts = {"run": str(folder), "shares": shares.to_dict("records")}
            print_table(table, Grid([], [], 0), options.style, "", table.notes, facts)
        else:
            for each in (table, shares):
                for number, (about, grid) in enumerate(each.grids.items(), 1):
                    notes = each.notes if number == len(each.grids) else ()
                    if options.style is Format.MARKDOWN:
                        print(f"{about}\n")
                    print_table(each, grid, options.style, about, notes, wide=options.wide)
        for path in run.write_charts():
            print(f"chart: {path}", file=sys.stderr)
        if not find_spec("matplotlib"):
            print(f"note: charts need matplotlib; {install_hint('train')}", file=sys.stderr)
        return int(table["errors"].sum())

    run_and_report(play, show)
