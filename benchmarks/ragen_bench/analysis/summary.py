"""Sum up the ledgers of a run: a row for each game and agent, and the episodes to look at first."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from statistics import median
from typing import Any, Final, NamedTuple

import pandas as pd

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode, TurnRecord
from ragen_bench.analysis.ledger import Blunder, Ledger, NoLedgerError, ledger
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.console.formats import Cells, Grid, grid_of, numbers, percent_cells, percents
from ragen_bench.console.progress import Track
from ragen_bench.evaluation.run_table import Run, level_clusters, mean
from ragen_bench.stats.intervals import Interval, bootstrap_mean, bounds_of_several, wilson_mean
from ragen_envs.conversation.prompt import describe_defect

_RESAMPLES: Final = 2000
_COLUMNS: Final = (
    "game", "agent", "n", "judged", "success", "valid", "optimal", "corrected", "corrected_low",
    "corrected_high", "regret", "blunders", "deadlocks", "overruns", "lost_turn", "wasted_tokens",
)  # fmt: skip


DECISIONS: Final = ("corrected", "corrected_low", "corrected_high", "regret", "blunders")
"""Columns that the table of a run can have too."""


class Explained(NamedTuple):
    """The ledgers of a run."""

    ledgers: Mapping[tuple[str, str], Sequence[Ledger]]
    """Ledgers by agent and game, in the order of the levels; only episodes that have one."""
    left_out: tuple[str, ...]
    """A sentence for each agent and reason for which others have none."""


def explain_run(run: Run, track: Track = iter) -> Explained:
    """Return the ledgers of a run's episodes."""
    ledgers: dict[tuple[str, str], list[Ledger]] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    for episode in track(run.episodes):
        try:
            ledgers.setdefault((episode.agent, episode.task), []).append(ledger(episode))
        except NoLedgerError as error:
            reasons[episode.agent, str(error)] += 1
    return Explained(ledgers, tuple(_left_out(run, reasons)))


def _left_out(run: Run, reasons: Mapping[tuple[str, str], int]) -> Iterator[str]:
    played = Counter(episode.agent for episode in run.episodes)
    for reason in dict.fromkeys(reason for _, reason in reasons):
        agents = [agent for agent, given in reasons if given == reason]
        counts = [f"{reasons[agent, reason]} of {played[agent]} episodes of {agent}" for agent in agents]
        yield f"{' and '.join(counts)} are left out of the columns on decisions, because {reason}"


def summarise_ledgers(run: Run, explained: Explained) -> pd.DataFrame:
    """Return a row for each game and agent of a run.

    Columns: ``game``, ``agent``; of all episodes their number ``n``, ``success`` and ``valid``, the share
    of replies without a defect; of the ``judged`` ones, which have a ledger, ``optimal``, the mean of V
    before the first turn; ``corrected``, luck-corrected success, with its 95% interval; ``regret``, the
    mean of a turn; ``blunders``, the share of episodes lost by one, of which ``deadlocks`` and ``overruns``;
    ``lost_turn``, the median number of the turn of the first one; ``wasted_tokens``, the mean number of
    tokens written after the episode was lost, of those that were. What is not defined is nan.
    """
    rows = [
        {
            "game": task,
            "agent": agent.name,
            "n": len(sample),
            "judged": len(judged := explained.ledgers.get((agent.name, task), ())),
            "success": mean([each.success for each in sample.values() if each.has_success]),
            "valid": mean([not t.defects for episode in sample.values() for t in episode.turns]),
            **(ledger_columns(judged) if judged else {}),
        }
        for task in run.config.suite.tasks
        for agent in run.config.agents
        if (sample := run.samples.get((agent.name, task)))
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def decision_grid(data: pd.DataFrame) -> Grid:
    """Return the table of `summarise_ledgers` for people."""
    columns: dict[str, Cells] = {
        "game": "game", "agent": "agent", "success\n%": percents("success"), "valid\n%": percents("valid"),
        "luck-corrected %\n[95% CI]": percent_cells("corrected"), "optimum\n%": percents("optimal"),
        "regret\nper turn": numbers("regret", 3), "deadlock\n%": percents("deadlocks"),
        "overrun\n%": percents("overruns"), "turn": numbers("lost_turn", 1),
        "tokens\nwasted": numbers("wasted_tokens", 0), "n": "n",
    }  # fmt: skip
    # Where episodes are left out, luck-corrected success alone would mislead.
    all_judged = bool((data["judged"] == data["n"]).all())
    outcomes = ("success\n%", "luck-corrected %\n[95% CI]")
    first, last = outcomes if all_judged else outcomes[::-1]
    hideable = ("n", "tokens\nwasted", "optimum\n%", "turn", first, last)
    return grid_of(data, columns, left=2, hideable=hideable)


def ledger_columns(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """Return the columns of `summarise_ledgers` on one agent's decisions in a game, at least one episode."""
    corrected = corrected_score(ledgers)
    lost = [(each, turn) for each in ledgers if (turn := each.lost_at) is not None]
    kinds = [each.decisions[turn].blunder for each, turn in lost]
    wasted = [tokens for each, _ in lost if (tokens := each.wasted_tokens) is not None]
    return {
        "optimal": mean([each.start for each in ledgers]),
        **corrected.columns("corrected"),
        "regret": mean([decision.regret for each in ledgers for decision in each.decisions]),
        "blunders": len(lost) / len(ledgers),
        "deadlocks": kinds.count(Blunder.DEADLOCK) / len(ledgers),
        "overruns": kinds.count(Blunder.OVERRUN) / len(ledgers),
        "lost_turn": median(turn + 1 for _, turn in lost) if lost else math.nan,
        "wasted_tokens": mean(wasted) if len(wasted) == len(lost) else math.nan,
    }


def with_decisions(data: pd.DataFrame, run: Run, explained: Explained) -> pd.DataFrame:
    """Return the table of a run with the columns ``corrected``, its interval, ``regret`` and ``blunders``."""
    judged = summarise_ledgers(run, explained)
    return data.merge(judged[["game", "agent", *DECISIONS]], on=["game", "agent"], how="left")


def corrected_score(ledgers: Sequence[Ledger], failed: Sequence[Episode] = ()) -> Interval:
    """Return mean luck-corrected success with its 95% interval, clustered by level where levels repeat.

    Without luck it is the success rate and has the success rate's interval; else that of a bootstrap, whose
    bounds are nan if all values are equal and of one level.
    """
    episodes = [*(each.episode for each in ledgers), *failed]
    clusters = level_clusters(episodes)
    if all(abs(each.luck) < 1e-9 for each in ledgers):
        return wilson_mean([episode.success for episode in episodes], clusters=clusters)
    values = [*(each.corrected for each in ledgers), *(0.0 for _ in failed)]
    each = bootstrap_mean(values, resamples=_RESAMPLES, seed=0, clusters=clusters)
    return bounds_of_several(each, len({episode.instance.key for episode in episodes}))


def most_instructive(explained: Explained, agent: str, count: int) -> list[Ledger]:
    """Return the episodes of an agent to look at first, the games in turn.

    In each game those come first whose worst turn cost most; of equal ones those where the oracle's plan
    was shortest, which are the easiest that were missed.
    """

    def importance(judged: Ledger) -> tuple[float, int, int]:
        return -_cost(judged), len(judged.decisions[judged.worst].plan), judged.worst

    games = [
        sorted((each for each in ledgers if _cost(each) > 0), key=importance)
        for (name, _), ledgers in explained.ledgers.items()
        if name == agent
    ]
    return [each for row in zip_longest(*games) for each in row if each is not None][:count]


def instructive_agents(agents: Iterable[str], controls: Collection[str] = CONTROLS) -> list[str]:
    """Return the agents to look at: all but the controls, or the controls if there are no others."""
    names = list(agents)
    return [name for name in names if name not in controls] or names


def invalid_reply(turn: TurnRecord) -> str:
    """Describe the defects of a turn's reply, in brackets after a space, or return "" if it was valid."""
    if not turn.defects:
        return ""
    defects = ", ".join(map(describe_defect, turn.defects))
    return f" (invalid reply: {escape_unprintable(defects)})"


def _cost(judged: Ledger) -> float:
    return round(judged.decisions[judged.worst].regret, 9)
