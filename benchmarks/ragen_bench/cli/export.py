"""``ragen export``: a run as flat tables, or in the format of another harness."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ragen_bench.cli.options import RunArgument, UncheckedOption


def export(
    run: RunArgument,
    kind: Annotated[
        Literal["inspect", "parquet", "jsonl", "hf"],
        typer.Option("--format", help="Format of the files."),
    ] = "inspect",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the files.",
            show_default="a folder of the run, named after the format",
        ),
    ] = None,
    unchecked: UncheckedOption = False,
) -> None:
    """Write a run's episodes in a format that other tools read.

    inspect: logs of Inspect (inspect_ai), one for each agent and game; view them with inspect view
    --log-dir DIR. parquet, jsonl: two tables, a row for each episode and a row for each turn. hf: the
    Parquet tables with a card, which datasets.load_dataset(DIR) reads.
    """
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.run_table import read_run

    read = read_run(run, not unchecked)
    target = out or run / kind
    if kind == "inspect":
        from ragen_bench.export.inspect_logs import write_inspect_logs

        with bar("writing") as tick:
            for path in write_inspect_logs(read, target, tick):
                print(path)
        return
    from ragen_bench.export.flat_tables import write_tables

    print(*write_tables(read, target, kind), sep="\n")
