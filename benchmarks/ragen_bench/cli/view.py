"""``ragen view``: look at what a run's agents did."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import RunArgument


def view(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages to a folder instead of serving them."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the server; 0 is any free one.")
    ] = 0,
) -> None:
    """Show a run's episodes in a browser: boards, replies, and what the oracle would have done."""
    from ragen_bench.console.row_bar import bar
    from ragen_bench.leaderboard.entry_run import read_explainable
    from ragen_bench.viewer.run_pages import write_run_pages
    from ragen_bench.viewer.serving import serve_folder

    read = read_explainable(run)
    if out is not None:
        with bar("judging") as tick:
            write_run_pages(read, out, tick)
        print(out / "index.html")
        return
    with tempfile.TemporaryDirectory(prefix="ragen-view-") as folder:
        with bar("judging") as tick:
            write_run_pages(read, Path(folder) / "site", tick)
        print("press Ctrl-C to stop", file=sys.stderr)
        serve_folder(Path(folder) / "site", port)
