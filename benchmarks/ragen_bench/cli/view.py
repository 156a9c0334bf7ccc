"""``ragen view``: look at what the agents of one or several runs did."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from ragen_bench.cli.options import UncheckedOption

TASK: Final = "task.json"
TEST: Final = "test"
"""Where a task of a sweep keeps what it is, and its test."""


def view(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="A run directory, or several to see side by side."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages to a folder instead of serving them."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="N", help="Port of the server; 0 for any free one."),
    ] = 0,
    unchecked: UncheckedOption = False,
) -> None:
    """Show a run in a browser, or the agents of several runs side by side.

    For a run of ragen bench, the pages show boards, replies, and what the oracle would have done; for runs
    of ragen match and ragen train, they show conversations. For a task of ragen train-sweep, they show its
    test; its training run is in the subfolder train.

    To view several runs together, they must be runs of ragen bench with the same settings. If several of
    them have an agent of the same name, it is shown as RUN:AGENT.
    """
    from ragen_bench.viewer.templates import serve_folder

    if out is not None:
        _write(runs, out, not unchecked)
        print(out / "index.html")
        return
    with tempfile.TemporaryDirectory(prefix="ragen-view-") as folder:
        _write(runs, Path(folder) / "site", not unchecked)
        print("press Ctrl-C to stop", file=sys.stderr)
        serve_folder(Path(folder) / "site", port)


def _write(runs: list[Path], out: Path, checked: bool) -> None:
    from ragen_bench.console.progress import bar
    from ragen_bench.leaderboard.store import read_explainable
    from ragen_bench.viewer.run_pages import write_run_pages
    from ragen_envs.errors import RagenError

    folders = [
        run / TEST if (run / TASK).is_file() and (run / TEST).is_dir() else run for run in runs
    ]
    commands = [_command(folder, checked) for folder in folders]
    if len(folders) == 1 and commands[0] != "bench":
        _write_conversations(folders[0], commands[0], out, checked)
        return
    for folder, command in zip(folders, commands, strict=True):
        if command != "bench":
            raise RagenError(
                f"'{folder}' is a run of ragen {command}; only runs of ragen bench can be viewed together"
            )
    with bar("judging") as tick:
        write_run_pages([read_explainable(folder, checked) for folder in folders], out, tick)


def _command(run: Path, checked: bool) -> Literal["bench", "match", "train"]:
    """Return the command that made a run."""
    from ragen_bench.config.run_config import ENTRY, MatchConfig, load_config
    from ragen_bench.viewer.transcripts import SAMPLES

    if (run / SAMPLES).is_file():
        return "train"
    if (run / ENTRY).is_file():
        return "bench"
    return "match" if isinstance(load_config(run, checked), MatchConfig) else "bench"


def _write_conversations(
    run: Path, command: Literal["match", "train"], out: Path, checked: bool
) -> None:
    from ragen_bench.evaluation.match_table import read_match_run
    from ragen_bench.evaluation.run_table import incomplete
    from ragen_bench.viewer.transcripts import (
        match_transcripts,
        read_training_samples,
        write_transcript_pages,
    )

    if command == "train":
        found = read_training_samples(run)
        write_transcript_pages(str(run), ("Iteration", "Kind"), found, out)
    else:
        read = read_match_run(run, checked)
        notes = incomplete(read.missing, len(read.config.keys), read.torn)
        found = match_transcripts(read)
        write_transcript_pages(str(run), ("Game", "Agent"), found, out, notes)
