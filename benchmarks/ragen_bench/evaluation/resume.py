"""Resume a run directory: load the models, hold the lock, show the progress."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from ragen_bench.config.run_config import ConfigT
from ragen_bench.console.run_progress import RunProgress
from ragen_bench.evaluation.budget import Budget
from ragen_bench.evaluation.runner import RunLimits, RunObserver
from ragen_bench.evaluation.spending import Ledger
from ragen_bench.runs.directory import RunDirectory, missing_agents
from ragen_bench.runs.failed_episodes import set_errors_aside

_LOG: Final = logging.getLogger("ragen.evaluation")

PlayerT = TypeVar("PlayerT")
Play = Callable[[RunDirectory[ConfigT], Mapping[str, PlayerT], RunObserver, RunLimits], None]
"""Plays the missing episodes of a run."""
MakePlayers = Callable[[Iterable[str]], Mapping[str, PlayerT]]
"""Makes what plays the episodes of some agents, such as their policies."""


def play_missing(
    folder: Path,
    config: ConfigT,
    play: Play[ConfigT, PlayerT],
    make_players: MakePlayers[PlayerT],
    budget: Budget,
    cache: Path | None,
    retry_errors: bool = False,
) -> None:
    """Play the missing episodes. Models are loaded first, so that a failed load changes nothing.

    Args:
        folder: The run directory.
        config: The run's.
        play: What kind of run it is.
        make_players: Loads the agents that have episodes left.
        budget: What the run may spend.
        cache: File of the response cache, or None.
        retry_errors: Play the episodes that ended in an error or exceeded the context again.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot continue.
    """
    progress = RunProgress()
    players = make_players(missing_agents(folder, config, retry_errors))
    if retry_errors:
        count = set_errors_aside(folder, config)
        _LOG.info("retrying %d failed episode%s", count, "s" if count != 1 else "")
    with RunDirectory(folder, config) as run, Ledger(folder) as ledger:
        try:
            with progress.of(len(run.done), len(config.keys)):
                play(run, players, progress, RunLimits(ledger, budget, cache))
        finally:
            if ledger.tokens:
                _LOG.info("spent: %s", ledger.summary(budget.prices))
