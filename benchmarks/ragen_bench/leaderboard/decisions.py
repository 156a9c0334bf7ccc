"""What the decisions of the entries cost: the ledgers of all episodes, and the columns that they give."""

import math
from collections.abc import Mapping, Sequence

from ragen_agents.rollout import EpisodeKey
from ragen_bench.analysis.ledger import Ledger, NoLedgerError, ledger
from ragen_bench.analysis.summary import DECISIONS, ledger_columns
from ragen_bench.leaderboard.standings import Samples, Standing

Ledgers = Mapping[str, Mapping[EpisodeKey, Ledger]]
"""Of one game, by entry and episode; only episodes that have one."""


def ledgers_of(samples: Samples) -> Ledgers:
    """Return the ledgers of all entries' episodes of a game."""
    found: dict[str, dict[EpisodeKey, Ledger]] = {}
    for name, sample in samples.items():
        own = found.setdefault(name, {})
        for episode in sample.values():
            try:
                own[episode.key] = ledger(episode)
            except NoLedgerError:
                continue
    return found


def with_decisions(rows: Sequence[Standing], ledgers: Ledgers) -> list[Standing]:
    """Return the rows of a game's table with the columns `ragen_bench.analysis.summary.DECISIONS`."""
    none = dict.fromkeys(DECISIONS, math.nan)
    found = {name: ledger_columns(list(own.values())) for name, own in ledgers.items() if own}
    return [
        row._replace(row={**row.row, **{k: found.get(row.name, none)[k] for k in DECISIONS}})
        for row in rows
    ]
