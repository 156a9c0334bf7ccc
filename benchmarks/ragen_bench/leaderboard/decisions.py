"""What the decisions of the entries cost: the ledgers of all episodes, and the columns that they give."""

import math
from collections.abc import Mapping, Sequence

from ragen_agents.rollout import EpisodeKey
from ragen_bench.analysis.ledger import Ledger, NoLedgerError, ledger
from ragen_bench.analysis.summary import DECISIONS, corrected_score, ledger_columns
from ragen_bench.evaluation.run_table import Sample
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


def with_decisions(rows: Sequence[Standing], ledgers: Ledgers, samples: Samples) -> list[Standing]:
    """Return the rows of a game's table with the columns `ragen_bench.analysis.summary.DECISIONS`.

    Episodes that failed have no ledger. They count as 0 in luck-corrected success, so that failing on
    hard levels raises it no more than success; the other columns are those of the decisions that were made.
    """
    return [
        row._replace(
            row={**row.row, **_columns(list(ledgers[row.name].values()), samples[row.name])}
        )
        for row in rows
    ]


def _columns(ledgers: Sequence[Ledger], sample: Sample) -> dict[str, float]:
    found = ledger_columns(ledgers) if ledgers else dict.fromkeys(DECISIONS, math.nan)
    failed = [episode for episode in sample.values() if episode.end.is_failure]
    # Where others have no ledger either, it is the game that has none.
    if failed and (ledgers or len(failed) == len(sample)):
        score = corrected_score(ledgers, failed)
        found |= {
            "corrected": score.estimate,
            "corrected_low": score.low,
            "corrected_high": score.high,
        }
    return {name: found[name] for name in DECISIONS}
