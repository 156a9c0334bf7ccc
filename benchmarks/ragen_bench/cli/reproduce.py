"""``ragen reproduce``: a table or figure of the paper, its numbers beside ours."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.option_groups import expand_groups
from ragen_bench.cli.options import FormatOption, WideOption
from ragen_bench.cli.train_sweep import UNFINISHED, finish, print_cost
from ragen_bench.cli.train_sweep_options import (
    DryRunOption,
    PlacementOptions,
    SweepOptions,
    make_run,
)
from ragen_bench.console.formats import Format, plain_rows, print_table
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.reproduction.reproduction_report import Report
    from ragen_bench.training_sweeps.sweep_run import SweepRun


@expand_groups
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table2 to table4, figure5 to figure11, sft, lora, risk, echo-trap, "
            "ragen2-filters, ragen2-gradient, ragen2-information, ragen2-keep, ragen2-length, "
            "ragen2-slip, or all.",
        ),
    ],
    *,
    size: SweepOptions,
    results: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of stored results: read first, then updated."),
    ] = Path("benchmarks/results"),
    placement: PlacementOptions,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN",
            help="Add the agents of this run of ragen bench, such as an endpoint, as zero-shot rows; "
            "may be repeated.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    run: Annotated[
        bool,
        typer.Option(
            help="Run the missing tasks, or only show finished ones, with all their seeds; the tables in "
            "--results are written either way."
        ),
    ] = True,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
) -> None:
    """Run or reuse a sweep and print the paper's numbers beside ours, with a verdict on each claim."""
    from ragen_bench.reproduction.beside import read_beside
    from ragen_bench.reproduction.reproduction_config import (
        bundled_reproductions,
        games_of,
        load_reproduction,
    )

    if beside and name == "all":
        raise RagenError("--beside is for one table; give its name instead of all")
    if name == "all" and style in (Format.CSV, Format.JSON):
        raise RagenError(
            f"--format {style} is for one table; give its name instead of all, or read the files in {results}"
        )
    finished = True
    for each in bundled_reproductions() if name == "all" else [name]:
        what = load_reproduction(each)
        games = games_of(what, size.scale)
        sweep_run = replace(make_run(what.sweep, games, size, placement), kept=results)
        if not run and not dry_run:  # what is left to run is of the current version
            sweep_run = sweep_run.with_kept_version()
        if not run and not size.quick and size.seeds is None:
            sweep_run = sweep_run.with_kept_seeds()
        sweep_run.check_kept()
        if not run and not dry_run and not _anything_stored(sweep_run, results):
            others_are_stored = any(sweep_run.archive(results).parent.glob("*.jsonl"))
            message = _nothing_stored(what.sweep if others_are_stored else None, results)
            if name != "all" or not others_are_stored:
                raise RagenError(message)
            print(f"note: {message}", file=sys.stderr)
            continue
        others = read_beside(beside or (), what, sweep_run.choice)
        if dry_run:
            print_cost(sweep_run, style, wide)
            continue
        if run:
            if style is Format.TABLE:
                print_cost(sweep_run, style, wide)
            finished &= finish(sweep_run)
        from ragen_bench.reproduction.reproduction_report import Report

        report = Report(what, sweep_run, others)
        _print(report, style, wide)
        for path in report.write(results):
            print(path, file=sys.stderr)
    if not finished:
        raise typer.Exit(UNFINISHED)


def _anything_stored(sweep_run: "SweepRun", results: Path) -> bool:
    """Return whether a sweep has results in a folder, its own of any suite version or shared runs."""
    shared = any(s.result for s in sweep_run.states() if s.task.seed is not None)
    return shared or sweep_run.archive(results).exists()


def _nothing_stored(sweep: str | None, results: Path) -> str:
    """Return the message for a folder without results of a sweep, or of any."""
    which = f" of the sweep '{sweep}'" if sweep else ""
    return (
        f"there are no stored results{which} in '{results}'; run the command in a checkout of "
        "ragen-suite, or name the folder with --results"
    )


def _print(report: "Report", style: Format, wide: bool) -> None:
    if style is Format.MARKDOWN:
        print(report.markdown())
        return
    claims = report.claims_data
    second = {"stages": report.stages_data, "phase": report.phase_data}
    facts = {
        "claims": plain_rows(claims),
        **{name: plain_rows(data) for name, data in second.items() if data is not None},
    }
    title = report.what.title
    if style is not Format.TABLE:
        print_table(report.data, report.table, style, title, report.notes(), facts, wide)
        return
    matrix = report.matrix
    if matrix is not None:
        print_table(report.data, matrix[1], style, f"{title}: {matrix[0]}", wide=wide)
    if report.verdicts:
        print_table(claims, report.claims, style, "Claims", wide=wide)
    if report.second_table is not None:
        print_table(report.data, report.second_table[1], style, report.second_table[0], wide=wide)
    print_table(report.data, report.table, style, title, report.notes(), wide=wide)
