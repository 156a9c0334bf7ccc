"""``ragen verify``: play a run's episodes again."""

import sys

import typer

from ragen_bench.cli.options import RunArgument


def verify(run: RunArgument) -> None:
    """Compute every number of a run again from its replies; exit 1 at the first that differs."""
    from rich.console import Console
    from rich.progress import Progress

    from ragen_bench.verify import MismatchError, verify_run

    console = Console(stderr=True)
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            row = bar.add_task("verifying", total=None)
            found = verify_run(
                run, lambda done, total: bar.update(row, completed=done, total=total)
            )
    except MismatchError as error:
        print(f"MISMATCH {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    complete = "complete" if not found.missing else f"UNFINISHED: {found.missing} episodes missing"
    print(f"OK {found.episodes} episodes, {found.turns} turns played again; {complete}")
    if found.torn:
        print("note: a broken last line was left out")
    if not found.hashed:
        print("note: there are no checksums, so replies with the same actions could be swapped")
