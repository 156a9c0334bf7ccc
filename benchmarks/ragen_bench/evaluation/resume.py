"""Play what a run directory lacks: load the models, hold the lock, show how far it is."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ragen_agents.policies import AsyncPolicy, Policy
from ragen_bench.config.agents import Remote, make_policies
from ragen_bench.config.run_config import ConfigT
from ragen_bench.console.run_progress import RunProgress
from ragen_bench.evaluation.budget import Budget
from ragen_bench.evaluation.runner import Purse, Report
from ragen_bench.evaluation.spending import Ledger
from ragen_bench.runs.directory import RunDirectory, missing_agents

_LOG: Final = logging.getLogger("ragen.evaluation")

Play = Callable[[RunDirectory[ConfigT], Mapping[str, Policy | AsyncPolicy], Report, Purse], None]
"""Plays what a run lacks."""


def play_missing(
    folder: Path,
    config: ConfigT,
    play: Play[ConfigT],
    remote: Remote,
    budget: Budget,
    cache: Path | None,
) -> None:
    """Play what is missing. Models are loaded first, so that a failure to leaves nothing behind.

    Args:
        folder: The run directory.
        config: The run's.
        play: What kind of run it is.
        remote: How agents are asked that do not run here.
        budget: What may be spent.
        cache: File of the response cache, or None for none.

    Raises:
        BudgetReachedError: The budget was reached before the end.
        RagenError: The run cannot go on.
    """
    progress = RunProgress()
    missing = missing_agents(folder, config)
    policies = make_policies(missing, config.suite.sampling, remote)
    with RunDirectory(folder, config) as run, Ledger(folder) as ledger:
        try:
            with progress.of(len(run.done), len(config.keys)):
                play(run, policies, progress, Purse(ledger, budget, cache))
        finally:
            if ledger.spent:
                _LOG.info("spent: %s", ledger.summary(budget.prices))
