"""``ragen leaderboard``: check the published entries, and show them as pages."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ragen_bench.cli.options import EntriesOption

leaderboard_app = typer.Typer(
    help="Check the published entries, and show them as pages.", no_args_is_help=True
)
_SITE = Path("runs/leaderboard")
_RESULTS = Path("benchmarks/results")


@leaderboard_app.command()
def check(
    entry: Annotated[
        list[Path] | None,
        typer.Argument(metavar="ENTRY", help="Folders of entries.  [default: all]"),
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
) -> None:
    """Play every reply of entries again and compute every number; exit 1 if any is rejected."""
    from ragen_bench.console.escaping import visible
    from ragen_bench.console.row_bar import bar
    from ragen_bench.leaderboard.entry_check import check_entry
    from ragen_bench.leaderboard.rules import EntryError
    from ragen_bench.leaderboard.store import entry_folders

    rejected = False
    for folder in entry or entry_folders(entries):
        try:
            with bar(f"checking {folder.name}") as tick:
                stored = check_entry(folder, tick)
        except EntryError as error:
            rejected = True
            print(visible(f"REJECTED {folder}: {error}"), file=sys.stderr)
        else:
            games = len(stored.entry.results)
            print(f"OK {folder}: {len(stored.records)} episodes of {games} games played again")
    if rejected:
        raise typer.Exit(1)


@leaderboard_app.command()
def schema() -> None:
    """Print the JSON Schema of an entry."""
    from ragen_bench.leaderboard.entry_schema import entry_schema

    print(entry_schema(), end="")


@leaderboard_app.command()
def build(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the site.")] = _SITE,
    entries: EntriesOption = Path("leaderboards"),
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the results of sweeps.  [default: benchmarks/results]"
        ),
    ] = None,
) -> None:
    """Check all entries and write them as a site: one folder, no server, no request leaves it."""
    from ragen_bench.console.row_bar import bar
    from ragen_bench.leaderboard.site import build_site
    from ragen_envs.errors import RagenError

    if results is not None and not results.is_dir():
        raise RagenError(f"--results is '{results}', but there is no such folder")
    with bar("building") as tick:
        build_site(entries, results or _RESULTS, out, tick)
    print(out / "index.html")


@leaderboard_app.command()
def serve(
    site: Annotated[Path, typer.Argument(metavar="DIR", help="A built site.")] = _SITE,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Serve a built site to this computer alone, until Ctrl-C."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    from ragen_envs.errors import RagenError

    if not (site / "index.html").is_file():
        raise RagenError(f"'{site}' holds no site; ragen leaderboard build makes one")
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise RagenError(f"port is {port}, but it cannot be used: {error.strerror}") from error
    with server:
        print(f"http://127.0.0.1:{port}/", flush=True)
        server.serve_forever()
