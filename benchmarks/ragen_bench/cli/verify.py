"""``ragen verify``: replay the episodes of a run."""

import sys

import typer

from ragen_bench.cli.options import BackendOption, RunArgument
from ragen_envs.errors import RagenError


def verify(run: RunArgument, backend: BackendOption = "local") -> None:
    """Replay a run and recompute every number; exit 1 at the first that differs."""
    from ragen_bench.config.run_config import ENTRY
    from ragen_bench.console.escaping import escape_unprintable
    from ragen_bench.console.progress import bar
    from ragen_bench.runs.environments import versions_of
    from ragen_bench.verification.run_verification import MismatchError, replayer, verify_run

    replay_all = replayer(backend)
    if (run / ENTRY).is_file():
        raise RagenError(f"'{run}' is a leaderboard entry; ragen leaderboard check replays it")
    try:
        with bar("verifying") as tick:
            found = verify_run(run, tick, replay_all)
    except MismatchError as error:
        print(f"MISMATCH {escape_unprintable(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from None
    complete = "complete" if not found.missing else f"UNFINISHED: {found.missing} episodes missing"
    print(f"OK {found.episodes} episodes, {found.turns} turns replayed; {complete}")
    try:
        versions_of(run)
    except RagenError as error:
        print(f"note: {error}, so the versions it was played with are unknown")
    if found.torn:
        print("note: the incomplete last line was skipped")
    if not found.hashed:
        print(
            "note: there are no checksums, so a changed reply with the same actions is not detected"
        )
    if found.unhashed:
        episodes = f"{found.unhashed} episode{'s' if found.unhashed != 1 else ''}"
        print(
            f"note: the checksums do not cover the last {episodes}, as after an interruption, so replies "
            "with the same actions could be swapped there"
        )
