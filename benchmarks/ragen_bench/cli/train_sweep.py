"""``ragen train-sweep``: many training runs that differ in one thing."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.options import FormatOption, WideOption
from ragen_bench.cli.train_sweep_options import (
    DryRunOption,
    PlacementOptions,
    SweepOptions,
    make_run,
)
from ragen_bench.console.formats import Format, print_table

if TYPE_CHECKING:
    from ragen_bench.training_sweeps.sweep_run import SweepRun

UNFINISHED = 1
"""Exit code if tasks could not be done."""


@expand_groups
def train_sweep(
    name: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP",
            help="algorithm, clip-kl, diversity, echo-trap, filter, freshness, gradient, granularity, lora, "
            "ragen2, reasoning, risk, sft, slip, thoughts, or the path of a YAML file.",
        ),
    ],
    game: Annotated[
        list[str] | None,
        typer.Option(help="Train on this game instead of the sweep's; may be repeated."),
    ] = None,
    *,
    size: SweepOptions,
    placement: PlacementOptions,
    dry_run: DryRunOption = False,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
) -> None:
    """Train every cell of a sweep with several seeds and test the resulting models.

    Each cell and seed is a task with its own folder. The same command skips
    finished tasks and resumes those that failed or were killed.
    """
    run = make_run(name, game, size, placement)
    if dry_run:
        print_cost(run, style, wide)
        return
    if style is Format.TABLE:
        print_cost(run, style, wide)
    finished = finish(run)
    _print_results(run, style, wide)
    if not finished:
        raise typer.Exit(UNFINISHED)


def _print_results(run: "SweepRun", style: Format, wide: bool) -> None:
    """Print the results so far: each cell on each test, against the cell that it is compared with."""
    from ragen_bench.reproduction.measurements import Runs
    from ragen_bench.reproduction.reproduction_config import Column
    from ragen_bench.reproduction.success_table import table_grid, tabulate

    states = run.states()
    pairs = dict.fromkeys((s.task.game, test) for s in states for test in s.task.suite.tasks)
    columns = [Column(train=game, test=test) for game, test in pairs]
    runs = Runs(run.sweep, [s.result for s in states if s.result is not None])
    data = tabulate(columns, {}, runs)
    grid = table_grid(data).without("paper\n%")
    title = f"{run.sweep.name} {run.sweep.version}, {run.choice.name}"
    print_table(data, grid, style, title, wide=wide)


def print_cost(run: "SweepRun", style: Format, wide: bool) -> None:
    """Print what exists and how long the rest will take."""
    from ragen_bench.training_sweeps.sweep_run import cost_grid

    data, notes = run.cost()
    title = f"{run.sweep.name} {run.sweep.version}, {run.choice.name}, in {run.root}"
    facts = {"sweep": run.sweep.name, "scale": run.choice.name, "workers": run.workers}
    print_table(data, cost_grid(data), style, title, notes, facts, wide)


def finish(run: "SweepRun") -> bool:
    """Run the remaining tasks and return whether all are done; Ctrl-C ends this process."""
    try:
        broken = run.finish()
    except KeyboardInterrupt:
        raise InterruptedCommandError("the same command resumes the sweep") from None
    if broken:
        print(
            f"{len(broken)} tasks are not done; the same command retries them. Their logs: "
            + " ".join(str(run.root / task.path / "log.txt") for task in broken),
            file=sys.stderr,
        )
    return not broken
