"""``ragen export``: a run in the format of another harness."""

from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import RunArgument


def export(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the logs.", show_default="the folder inspect of the run"
        ),
    ] = None,
) -> None:
    """Write a run's episodes as logs of Inspect (inspect_ai), one for each agent and game.

    View them with inspect view --log-dir DIR.
    """
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.run_table import read_run
    from ragen_bench.export.inspect_logs import write_inspect_logs

    read = read_run(run)
    target = out or run / "inspect"
    with bar("writing") as tick:
        for path in write_inspect_logs(read, target, tick):
            print(path)
