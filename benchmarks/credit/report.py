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
    clear = int(_clear(turns).sum())
    levels = len({turn.group for turn in turns})
    episodes = len({(turn.group, turn.member) for turn in turns})
    return (
        f"{len(turns)} turns of {episodes} episodes on {levels} levels. Two halves of the continuations "
        f"agree with r = {_pearson(*_halves(turns)):.2f}. {clear} advantages differ from 0 by more than two "
        f"standard errors. {_between_turns(turns):.0%} of their variance is between the turns of an episode."
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
        yield _row(f"`{label}`", turns, (given, given), *_signs_and_ranks(turns, given))
    yield _row("return − true value of the first state", turns, _from_first_value(turns))
    yield _row("return to go − true value of the state", turns, _from_value(turns))


def _row(name: str, turns: Sequence[AuditedTurn], given: Pair, same: str = "–", rank: str = "–") -> str:
    """Return one row.

    Args:
        name: Of the method.
        turns: All turns.
        given: What it assigns, (T,), if it knows the first half of the continuations, and the second.
        same: How often its sign is right.
        rank: Its rank correlation with the true advantage.
    """
    oracle = np.array([turn.oracle for turn in turns])
    low, high = _interval(turns, given)
    cells = [
        same,
        rank,
        f"{_shown(_corrected(given, _halves(turns)))} [{_shown(low)}, {_shown(high)}]",
        _shown(_corrected(_within(turns, given), _within(turns, _halves(turns)))),
        _shown(spearmanr((given[0] + given[1]) / 2, oracle).statistic),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def _signs_and_ranks(turns: Sequence[AuditedTurn], given: np.ndarray) -> tuple[str, str]:
    """Return how often the sign is right, in percent, and the rank correlation with the true advantage.

    Not for a method that knows the continuations: it would share the noise of the true advantage.
    """
    truth, clear = _truth(turns), _clear(turns)
    same = np.mean(np.sign(given[clear]) == np.sign(truth[clear]))
    return f"{100 * same:.0f}", _shown(spearmanr(given, truth).statistic)


def _corrected(given: Pair, halves: Pair) -> float:
    """Return Pearson's correlation of what is assigned with the true advantage, without the noise of either.

    Both are measured by two halves of the continuations, with independent noise: products across the halves
    have no noise in the mean.
    """
    if min(each.std() for each in (*given, *halves)) < 1e-9:
        return float("nan")
    found = (_covariance(given[1], halves[0]) + _covariance(given[0], halves[1])) / 2
    variances = _covariance(*given), _covariance(*halves)
    return found / (variances[0] * variances[1]) ** 0.5 if min(variances) > 0 else float("nan")


def _interval(turns: Sequence[AuditedTurn], given: Pair) -> tuple[float, float]:
    """Return the bootstrap interval of the correlation, drawn by level."""
    of_level = defaultdict(list)
    for place, turn in enumerate(turns):
        of_level[turn.group].append(place)
    levels = [np.array(places) for places in of_level.values()]
    rng = np.random.default_rng(0)
    count = len(levels)
    halves = _halves(turns)
    draws = []
    for drawn in rng.integers(count, size=(_DRAWS, count)):
        chosen = np.concatenate([levels[k] for k in drawn])
        draws.append(_corrected((given[0][chosen], given[1][chosen]), (halves[0][chosen], halves[1][chosen])))
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
    return np.unique([(t.group, t.member) for t in turns], axis=0, return_inverse=True)[1].reshape(-1)


def _between_turns(turns: Sequence[AuditedTurn]) -> float:
    """Return the share of the true advantage's variance, without noise, that lies within episodes."""
    halves = _halves(turns)
    variance = _covariance(*halves)
    return _covariance(*_within(turns, halves)) / variance if variance > 0 else float("nan")


def _within(turns: Sequence[AuditedTurn], pair: Pair) -> Pair:
    """Return both minus the means of their episodes."""
    episodes = _episodes(turns)
    return _centred(pair[0], episodes), _centred(pair[1], episodes)


def _centred(values: np.ndarray, episodes: np.ndarray) -> np.ndarray:
    """Return values minus the mean of their episode."""
    means = np.bincount(episodes, values) / np.bincount(episodes)
    centred: np.ndarray = values - means[episodes]
    return centred


def _covariance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.mean((first - first.mean()) * (second - second.mean())))


def _pearson(first: np.ndarray, second: np.ndarray) -> float:
    if first.std() < 1e-9 or second.std() < 1e-9:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def _shown(number: float) -> str:
    return "–" if np.isnan(number) else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")
