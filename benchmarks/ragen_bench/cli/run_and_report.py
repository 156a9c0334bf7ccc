"""What ``ragen bench``, ``match`` and ``sweep`` print at their end: tables, directory, next commands."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from ragen_bench.cli.interruption import InterruptedCommandError
from ragen_bench.config.run_config import BaseConfig, MatchConfig, load_config
from ragen_bench.evaluation.runner import RunInterrupt

STOPPED: Final = 3
"""Exit code of a run that stopped at its budget."""


def run_and_report(
    play: Callable[[], tuple[Path, str | None]], show: Callable[[Path], int]
) -> None:
    """Play a run, then print its table, its directory and what to do next.

    Args:
        play: Plays the run; returns its directory, and the limit that ended it early or None.
        show: Prints the table of a run; returns how many of its episodes or matches failed.

    Raises:
        RagenError: The run cannot continue.
        typer.Exit: The budget was reached.
        InterruptedCommandError: The run was interrupted.
    """
    try:
        folder, stopped = play()
    except RunInterrupt as interrupt:
        raise InterruptedCommandError(str(interrupt)) from None
    failed = show(folder)
    config = load_config(folder)
    print(f"run: {folder}", file=sys.stderr)
    for line in _next_commands(folder, config):
        print(line, file=sys.stderr)
    if failed:
        print(f"{_failures(config, failed)}; use --retry-errors to retry", file=sys.stderr)
    if stopped is not None:
        print(f"budget reached: {stopped}; finished episodes are kept, and the same command with a "
              "larger budget resumes the run", file=sys.stderr)  # fmt: skip
        raise typer.Exit(STOPPED)


def _next_commands(folder: Path, config: BaseConfig) -> list[str]:
    """Return the commands that show more of a run, each after its name."""
    run = shlex.quote(str(folder))
    lines = [f"view: ragen view {run}", f"verify: ragen verify {run}"]
    if isinstance(config, MatchConfig):
        return lines
    lines.insert(0, f"explain: ragen explain {run}")
    if len(config.agents) > 1:
        first, second = (shlex.quote(agent.name) for agent in config.agents[:2])
        lines.insert(2, f"compare: ragen compare {run}:{second} :{first}")
    return lines


def _failures(config: BaseConfig, count: int) -> str:
    why = "ended in an error or exceeded the model's context"
    if isinstance(config, MatchConfig):
        return f"{count} match{'es' if count > 1 else ''} had a seat that {why}"
    return f"{count} episode{'s' if count > 1 else ''} {why}"
