"""``ragen sweep``: many training runs that differ in one thing."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli import sweep_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.formats import Format, print_table

if TYPE_CHECKING:
    from ragen_bench.sweeps.run import SweepRun

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
    print_cost(run, style)
    if not dry_run and not finish(run):
        raise typer.Exit(UNFINISHED)


def print_cost(run: "SweepRun", style: Format) -> None:
    """Print what is there and what the rest will take."""
    from ragen_bench.sweeps.run import cost_grid

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
