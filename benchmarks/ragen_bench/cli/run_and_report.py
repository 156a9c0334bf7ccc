"""What ``ragen bench`` and ``ragen match`` share: a run directory, progress, a budget, the table."""

import sys
from typing import Final

import typer

from ragen_agents.policies import BudgetReachedError
from ragen_bench.cli.endpoint_options import cache_file
from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.cli.run_options import EndpointOptions, RunOptions
from ragen_bench.cli.show import print_run
from ragen_bench.config.run_config import BaseConfig, ConfigT, MatchConfig, default_directory
from ragen_bench.evaluation.runner import MakePlayers, Play, PlayerT, play_missing
from ragen_bench.evaluation.spending import Budget

STOPPED: Final = 3
"""Exit code of a run that stopped at its budget."""


def run_and_report(
    config: ConfigT,
    play: Play[ConfigT, PlayerT],
    make_players: MakePlayers[PlayerT],
    budget: Budget,
    options: RunOptions,
    endpoint: EndpointOptions,
) -> None:
    """Play the missing episodes of a run, then print its table and its directory.

    Raises:
        RagenError: The run cannot continue.
        typer.Exit: The budget was reached.
        InterruptedCommandError: The run was interrupted.
    """
    folder = options.out or default_directory(config)
    replies = cache_file(endpoint, folder, config.suite.sampling)
    try:
        play_missing(folder, config, play, make_players, budget, replies, options.retry_errors)
        reached = None
    except BudgetReachedError as stopped:
        reached = stopped
    except KeyboardInterrupt:
        kept = f"finished episodes are in {folder}, and the same command resumes the run"
        raise InterruptedCommandError(
            kept if folder.exists() else "no episode was finished"
        ) from None
    failed = print_run(folder, options.style, options.wide)
    print(f"run: {folder}", file=sys.stderr)
    if failed:
        print(f"{_failures(config, failed)}; use --retry-errors to retry", file=sys.stderr)
    if reached is not None:
        print(f"budget reached: {reached}; finished episodes are kept, and the same command with a "
              "larger budget resumes the run", file=sys.stderr)  # fmt: skip
        raise typer.Exit(STOPPED)


def _failures(config: BaseConfig, count: int) -> str:
    why = "ended in an error or exceeded the model's context"
    if isinstance(config, MatchConfig):
        return f"{count} match{'es' if count > 1 else ''} had a seat that {why}"
    return f"{count} episode{'s' if count > 1 else ''} {why}"
