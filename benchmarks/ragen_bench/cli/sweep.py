"""``ragen sweep``: many training runs that differ in one thing."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli import sweep_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.console.formats import Format, print_table

if TYPE_CHECKING:
    from ragen_bench.sweeps.sweep_run import SweepRun

UNFINISHED = 1
"""Exit code where tasks could not be done."""


def sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="algorithm, clip-kl, diversity, filter, freshness, granularity, lora, reasoning, risk, "
            "sft, or the path of a YAML file.",
        ),
    ],
    game: options.Game = None,
    seeds: options.Seeds = None,
    scale: options.Scale = "laptop",
    quick: options.Quick = False,
    model: options.Model = None,
    out: options.Out = None,
    workers: options.Workers = None,
    on: options.On = "local",
    gpus: options.Gpus = None,
    dry_run: options.DryRun = False,
    style: FormatOption = Format.TABLE,
) -> None:
    """Train every cell of a sweep with several seeds, and test what comes out.

    Each cell and seed is a task with a folder of its own. What is done is not done again, what broke or
    was killed is gone on with, by the same command.
    """
    run = options.make_run(name, game, seeds, scale, quick, model, out, workers, on, gpus)
    if dry_run:
        print_cost(run, style)
        return
    if style is Format.TABLE:
        print_cost(run, style)
    finished = finish(run)
    _print_results(run, style)
    if not finished:
        raise typer.Exit(UNFINISHED)


def _print_results(run: "SweepRun", style: Format) -> None:
    """Print what was found so far: each cell on each test, against the cell that it is compared with."""
    from ragen_bench.reproduction.measurements import Runs
    from ragen_bench.reproduction.reproduction_config import Column
    from ragen_bench.reproduction.success_table import table_grid, tabulate

    states = run.states()
    pairs = dict.fromkeys((s.task.game, test) for s in states for test in s.task.suite.tasks)
    columns = [Column(train=game, test=test) for game, test in pairs]
    runs = Runs(run.sweep, [s.result for s in states if s.result is not None])
    data = tabulate(columns, {}, runs)
    grid = table_grid(data).without("paper\n%")
    print_table(data, grid, style, f"{run.sweep.name} {run.sweep.version}, {run.choice.name}")


def print_cost(run: "SweepRun", style: Format) -> None:
    """Print what is there and what the rest will take."""
    from ragen_bench.sweeps.sweep_run import cost_grid

    data, notes = run.cost()
    title = f"{run.sweep.name} {run.sweep.version}, {run.choice.name}, in {run.root}"
    facts = {"sweep": run.sweep.name, "scale": run.choice.name, "workers": run.workers}
    print_table(data, cost_grid(data), style, title, notes, facts)


def finish(run: "SweepRun") -> bool:
    """Do the rest of a sweep and return whether all of it is done, or end this process at Ctrl-C."""
    try:
        broken = run.finish()
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on", file=sys.stderr)
        raise typer.Exit(130) from None
    if broken:
        print(
            f"{len(broken)} tasks are not done; the same command tries them again. Their logs: "
            + " ".join(str(run.root / task.path / "log.txt") for task in broken),
            file=sys.stderr,
        )
    return not broken
