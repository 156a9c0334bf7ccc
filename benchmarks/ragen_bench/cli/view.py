"""``ragen view``: look at what a run's agents did."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from ragen_bench.cli.options import RunArgument

TASK: Final = "task.json"
TEST: Final = "test"
"""Where a task of a sweep keeps what it is, and its test."""


def view(
    run: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages to a folder instead of serving them."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the server; 0 for any free one.")
    ] = 0,
) -> None:
    """Show a run in a browser.

    A run of ragen bench has boards, replies, and what the oracle would have done; runs of ragen match and
    ragen train have conversations. A task of ragen sweep shows its test; its training is in the folder train.
    """
    from ragen_bench.viewer.serving import serve_folder

    if out is not None:
        _write(run, out)
        print(out / "index.html")
        return
    with tempfile.TemporaryDirectory(prefix="ragen-view-") as folder:
        _write(run, Path(folder) / "site")
        print("press Ctrl-C to stop", file=sys.stderr)
        serve_folder(Path(folder) / "site", port)


def _write(run: Path, out: Path) -> None:
    from ragen_bench.config.run_config import MatchConfig, load_config
    from ragen_bench.console.row_bar import bar
    from ragen_bench.leaderboard.entry_run import read_explainable
    from ragen_bench.leaderboard.store import ENTRY
    from ragen_bench.match.match_table import read_match_run
    from ragen_bench.viewer.run_pages import write_run_pages
    from ragen_bench.viewer.transcripts import (
        SAMPLES,
        match_transcripts,
        read_training_samples,
        write_transcript_pages,
    )

    if (run / TASK).is_file() and (run / TEST).is_dir():
        run = run / TEST
    if (run / SAMPLES).is_file():
        found = read_training_samples(run)
        write_transcript_pages(str(run), ("Iteration", "Kind"), found, out)
    elif not (run / ENTRY).is_file() and isinstance(load_config(run), MatchConfig):
        found = match_transcripts(read_match_run(run))
        write_transcript_pages(str(run), ("Game", "Agent"), found, out)
    else:
        with bar("judging") as tick:
            write_run_pages(read_explainable(run), out, tick)
