"""``ragen reproduce``: a table or figure of the paper, its numbers beside ours."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli import sweep_options as options
from ragen_bench.cli.options import FormatOption
from ragen_bench.cli.sweep import finish, print_cost
from ragen_bench.formats import Format, print_table

if TYPE_CHECKING:
    from ragen_bench.reproduction.report import Report


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table2, table3, table4, figure5 to figure11, sft, lora, risk, or all.",
        ),
    ],
    seeds: options.Seeds = None,
    scale: options.Scale = "laptop",
    quick: options.Quick = False,
    model: options.Model = None,
    out: options.Out = None,
    results: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of results that are kept: read first, then written."
        ),
    ] = Path("benchmarks/results"),
    workers: options.Workers = None,
    on: options.On = "local",
    gpus: options.Gpus = None,
    dry_run: options.DryRun = False,
    run: Annotated[
        bool, typer.Option(help="Do what is missing, or show only what is there.")
    ] = True,
    style: FormatOption = Format.TABLE,
) -> None:
    """Run or reuse a sweep, and print the paper's numbers beside ours with a verdict on each claim."""
    from ragen_bench.reproduction.schema import bundled_reproductions, games_of, load_reproduction

    for each in bundled_reproductions() if name == "all" else [name]:
        what = load_reproduction(each)
        games = games_of(what, scale)
        wanted = replace(
            options.make_run(what.sweep, games, seeds, scale, quick, model, out, workers, on, gpus),
            kept=results,
        )
        if dry_run:
            print_cost(wanted, style)
            continue
        if run:
            print_cost(wanted, Format.TABLE) if style is Format.TABLE else None
            finish(wanted)
        from ragen_bench.reproduction.report import Report

        report = Report(what, wanted)
        _print(report, style)
        for path in report.write(results):
            print(path, file=sys.stderr)


def _print(report: "Report", style: Format) -> None:
    import pandas as pd

    if style is Format.MARKDOWN:
        print(report.markdown())
        return
    print_table(report.data, report.table, style, report.what.title, report.notes())
    if style is Format.TABLE and report.verdicts:
        claims = pd.DataFrame(report.verdicts)
        print_table(claims, report.claims, style, "Claims")
