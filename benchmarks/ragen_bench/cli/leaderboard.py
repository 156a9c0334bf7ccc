"""``ragen leaderboard``: check the published entries and build the leaderboard site."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragen_bench.cli.options import BackendOption, EntriesOption

if TYPE_CHECKING:
    from ragen_bench.leaderboard.entry import Entry

leaderboard_app = typer.Typer(
    name="leaderboard",
    help="Check the published entries and build the leaderboard site.",
    no_args_is_help=True,
)
_SITE = Path("runs/leaderboard")
_RESULTS = Path("benchmarks/results")


@leaderboard_app.command()
def check(
    entry: Annotated[
        list[Path] | None,
        typer.Argument(metavar="ENTRY", help="Folders of entries.", show_default="all"),
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
    backend: BackendOption = "local",
) -> None:
    """Replay entries and recompute all their numbers; exit 1 if any entry is rejected.

    Episodes of older suite versions cannot be replayed; only their numbers are recomputed.
    """
    from ragen_bench.console.escaping import escape_unprintable
    from ragen_bench.console.progress import bar
    from ragen_bench.leaderboard.check import check_entry, replies_digest
    from ragen_bench.leaderboard.entry import EntryError, check_titles
    from ragen_bench.leaderboard.store import entry_folders
    from ragen_bench.verification.run_verification import replayer

    replay_all = replayer(backend)
    rejected = False
    replies: dict[str, Path] = {}
    checked: list[Entry] = []
    for folder in entry or entry_folders(entries):
        try:
            with bar(f"checking {folder.name}") as tick:
                stored = check_entry(folder, tick, replay_all)
        except Exception as error:  # entries are untrusted, and each is to be heard of
            rejected = True
            what = (
                str(error) if isinstance(error, EntryError) else f"{type(error).__name__}: {error}"
            )
            print(escape_unprintable(f"REJECTED {folder}: {what}"), file=sys.stderr)
        else:
            checked.append(stored.entry)
            other = replies.setdefault(replies_digest(stored.records), folder)
            if other != folder:
                rejected = True
                print(f"REJECTED {folder}: its replies are those of {other}", file=sys.stderr)
                continue
            config, games = stored.entry.config, len(stored.entry.results)
            counts = f"{len(stored.records)} episodes of {games} games"
            if not stored.entry.is_current:
                print(
                    f"OLD {folder}: {counts} of suite version {config.suite_version}, not replayed"
                )
            else:
                print(f"OK {folder}: {counts} replayed")
    try:
        check_titles(checked)
    except EntryError as error:
        rejected = True
        print(escape_unprintable(f"REJECTED {error}"), file=sys.stderr)
    if rejected:
        raise typer.Exit(1)


@leaderboard_app.command()
def schema() -> None:
    """Print the JSON Schema of an entry."""
    from ragen_bench.leaderboard.entry import entry_schema

    print(entry_schema(), end="")


@leaderboard_app.command()
def build(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the site.")] = _SITE,
    entries: EntriesOption = Path("leaderboards"),
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of stored sweep results.", show_default=str(_RESULTS)
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the published site; links to it then show a preview picture.",
        ),
    ] = None,
) -> None:
    """Check all entries and write a static site that needs no server and makes no requests."""
    from ragen_bench.console.progress import bar
    from ragen_bench.leaderboard.site import build_site
    from ragen_envs.errors import RagenError

    if results is not None and not results.is_dir():
        raise RagenError(f"--results is '{results}', but there is no such folder")
    if url is not None and not url.startswith(("https://", "http://")):
        raise RagenError(f"--url is '{url}', but must begin with https:// or http://")
    with bar("building") as tick:
        build_site(entries, results or _RESULTS, out, tick, url)
    print(out / "index.html")


@leaderboard_app.command()
def serve(
    site: Annotated[Path, typer.Argument(metavar="DIR", help="A built site.")] = _SITE,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Serve a built site on localhost, until Ctrl-C."""
    from ragen_bench.viewer.templates import serve_folder
    from ragen_envs.errors import RagenError

    if not (site / "index.html").is_file():
        raise RagenError(f"'{site}' holds no site; run ragen leaderboard build first")
    serve_folder(site, port)
