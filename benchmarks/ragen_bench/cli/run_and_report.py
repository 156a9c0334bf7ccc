"""What the commands that play have in common: a run directory, progress, a budget, the table."""

import sys
from pathlib import Path
from typing import Final, NamedTuple

import typer

from ragen_agents.policies import BudgetReachedError
from ragen_bench.cli.endpoint_options import cache_file
from ragen_bench.cli.show import print_run
from ragen_bench.config.agents import Remote
from ragen_bench.config.run_config import CONFIG, ConfigT, default_directory
from ragen_bench.console.formats import Format
from ragen_bench.evaluation.budget import Budget
from ragen_bench.evaluation.resume import Play, play_missing
from ragen_envs.errors import RagenError

STOPPED: Final = 3
"""Exit code of a run that stopped at its budget."""


class Storage(NamedTuple):
    """Where a run is kept, as the command line says it."""

    out: Path | None
    resume: bool
    cache: Path | None
    no_cache: bool


def conduct(
    config: ConfigT,
    play: Play[ConfigT],
    remote: Remote,
    budget: Budget,
    storage: Storage,
    style: Format,
) -> None:
    """Play what is missing of a run, print its table, and say where it is.

    Raises:
        RagenError: The run cannot go on.
        typer.Exit: The budget was reached, or the run was interrupted.
    """
    folder = storage.out or default_directory(config)
    if not storage.resume and (folder / CONFIG).exists():
        raise RagenError(f"'{folder}' holds a run already; leave --no-resume out to go on with it")
    replies = cache_file(storage.cache, storage.no_cache, folder, config.suite.sampling)
    try:
        play_missing(folder, config, play, remote, budget, replies)
        reached = None
    except BudgetReachedError as stopped:
        reached = stopped
    except KeyboardInterrupt:
        print(f"\ninterrupted; what is done is in {folder}, and the same command goes on",
              file=sys.stderr)  # fmt: skip
        raise typer.Exit(130) from None
    print_run(folder, style)
    print(f"run: {folder}", file=sys.stderr)
    if reached is not None:
        print(f"budget reached: {reached}; what is played is kept, and the same command with a "
              "larger budget goes on", file=sys.stderr)  # fmt: skip
        raise typer.Exit(STOPPED)
