"""The tables of docs/credit.md, from the kept turns of each game."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from scipy.stats import spearmanr

from credit.turns import AuditedTurn

_DRAWS: Final = 1000
"""Bootstrap samples of levels."""

_ROUNDING: Final = 1e-5
"""The kept numbers are rounded to six places."""

Pair = tuple[np.ndarray, np.ndarray]


def table(turns: Sequence[AuditedTurn]) -> str:
    """Return the table of one game as Markdown."""
    return "\n".join(_rows(turns))


def summary(turns: Sequence[AuditedTurn]) -> str:
    """Return one line: how much was measured, and how well."""
    truth = _truth(turns)
    between = _between(turns, truth)
    clear = int(_clear(turns).sum())
    levels = len({turn.group for turn in turns})
    episodes = len({(turn.group, turn.member) for turn in turns})
    return (
        f"{len(turns)} turns of {episodes} episodes on {levels} levels. Two halves of the continuations "
        f"agree with r = {_pearson(*_halves(turns)):.2f}. {clear} advantages differ from 0 by more than two "
        f"standard errors. {1 - between:.0%} of their variance is between the turns of an episode."
    )


def _rows(turns: Sequence[AuditedTurn]) -> Iterator[str]:
    yield (
        "| assigned by | same sign, % | rank correlation | correlation [95% CI] | within episodes "
        "| with the oracle |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    labels = list(turns[0].assigned)
    for label in labels:
        given = np.array([turn.assigned[label] for turn in turns])
        yield _row(f"`{label}`", turns, (given, given))
    yield _row("return − true value of the first state", turns, _from_first_value(turns))
    yield _row("return to go − true value of the state", turns, _from_value(turns))


def _row(name: str, turns: Sequence[AuditedTurn], given: Pair) -> str:
    """Return one row.

    Args:
        name: Of the method.
        turns: All turns.
        given: What it assigns, (T,), if it knows the first half of the continuations, and the second.
    """
    truth = _truth(turns)
    clear = _clear(turns)
    both = (given[0] + given[1]) / 2
    same = np.mean(np.sign(both[clear]) == np.sign(truth[clear]))
    oracle = np.array([turn.oracle for turn in turns])
    low, high = _interval(turns, given)
    cells = [
        f"{100 * same:.0f}",
        _shown(spearmanr(both, truth).statistic),
        f"{_shown(_corrected(turns, given, _everything(turns)))} [{_shown(low)}, {_shown(high)}]",
        _shown(_corrected(turns, given, _everything(turns), within=True)),
        _shown(spearmanr(both, oracle).statistic),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def _corrected(
    turns: Sequence[AuditedTurn], given: Pair, chosen: np.ndarray,
    within: bool = False,
) -> float:  # fmt: skip
    """Return Pearson's correlation with the true advantage, corrected for the noise of its measurement.

    A method that knows one half of the continuations is compared with the other.
    """
    halves = _halves(turns)
    episodes = _episodes(turns)[chosen]
    centre = _centred if within else (lambda values, _: values)
    first, second = (centre(half[chosen], episodes) for half in halves)
    mine = [centre(each[chosen], episodes) for each in given]
    found = (_pearson(mine[1], first) + _pearson(mine[0], second)) / 2
    return float(found / max(_pearson(first, second), 1e-9) ** 0.5)


def _interval(turns: Sequence[AuditedTurn], given: Pair) -> tuple[float, float]:
    """Return the bootstrap interval of the correlation, drawn by level."""
    of_level = defaultdict(list)
    for place, turn in enumerate(turns):
        of_level[turn.group].append(place)
    levels = [np.array(places) for places in of_level.values()]
    rng = np.random.default_rng(0)
    count = len(levels)
    draws = [
        _corrected(turns, given, np.concatenate([levels[k] for k in drawn]))
        for drawn in rng.integers(count, size=(_DRAWS, count))
    ]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _from_first_value(turns: Sequence[AuditedTurn]) -> Pair:
    start = {turn.group: turn.before for turn in turns if turn.turn == 0}
    total = {(turn.group, turn.member): turn.to_go for turn in turns if turn.turn == 0}
    first, second = zip(
        *([total[t.group, t.member] - value for value in start[t.group]] for t in turns),
        strict=True,
    )
    return np.array(first), np.array(second)


def _from_value(turns: Sequence[AuditedTurn]) -> Pair:
    first, second = zip(*([t.to_go - value for value in t.before] for t in turns), strict=True)
    return np.array(first), np.array(second)


def _truth(turns: Sequence[AuditedTurn]) -> np.ndarray:
    return np.array([turn.advantage for turn in turns])


def _halves(turns: Sequence[AuditedTurn]) -> Pair:
    first, second = zip(*(turn.halves for turn in turns), strict=True)
    return np.array(first), np.array(second)


def _clear(turns: Sequence[AuditedTurn]) -> np.ndarray:
    return np.array([abs(turn.advantage) > 2 * turn.error + _ROUNDING for turn in turns])


def _episodes(turns: Sequence[AuditedTurn]) -> np.ndarray:
    """Return a number of each turn's episode, (T,)."""
    return np.unique([(t.group, t.member) for t in turns], axis=0, return_inverse=True)[1]


def _everything(turns: Sequence[AuditedTurn]) -> np.ndarray:
    return np.arange(len(turns))


def _between(turns: Sequence[AuditedTurn], truth: np.ndarray) -> float:
    """Return the share of the variance that lies between episodes."""
    episodes = _episodes(turns)
    return 1 - float(_centred(truth, episodes).var() / truth.var())


def _centred(values: np.ndarray, episodes: np.ndarray) -> np.ndarray:
    """Return values minus the mean of their episode."""
    _, place = np.unique(episodes, return_inverse=True)
    means = np.bincount(place, values) / np.bincount(place)
    centred: np.ndarray = values - means[place]
    return centred


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    if first.std() < 1e-9 or second.std() < 1e-9:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _shown(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")
