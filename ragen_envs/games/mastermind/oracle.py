"""The optimum of Mastermind: exact chances within a number of guesses, and the least guesses on average.

A state is the set of codes that agree with all answers. The strategy never needs more than 5 guesses, and the
fewest on average of all such strategies: 5626 in all over the 1,296 codes. (One guess less in all is possible
with a sixth for one of them.) Its first two guesses are stored; what follows is found by branch and bound.
Off its path, from more than ``EXACT`` codes, it chooses the guess with the most different answers. Chances
within a budget are exact: where the strategy does not reach the bound, all guesses are searched. From the
start, that is too long for limits that may be too few for the strategy, such as 4 turns of one guess.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.game.search_cache import search_cache
from ragen_envs.games.mastermind.dynamics import CODES, NUMBERS, Answer, answers

EXACT: Final = 60
"""Most codes from which the strategy is the best on average, wherever they come from."""
LONGEST: Final = 5
"""Guesses that are enough for every code."""
MAX_STATES: Final = 20_000
"""States that a search for a chance visits before it gives up."""
FIRST: Final = "RRGB"
SECOND: Final[dict[Answer, str]] = {
    (0, 0): "YYOP",
    (0, 1): "GYYO",
    (0, 2): "GYBY",
    (0, 3): "GBYO",
    (0, 4): "GBRR",
    (1, 0): "RYYO",
    (1, 1): "RYRO",
    (1, 2): "RYRO",
    (1, 3): "RGBR",
    (2, 0): "RGYO",
    (2, 1): "RGYO",
    (2, 2): "RGRB",
    (3, 0): "RGYO",
}
"""The second guess after each answer to the first."""

_WIN: Final = 4 * 8
_NEVER: Final = 1 << 30
_ANSWERS: Final = 14
_FEWER: Final = _ANSWERS - 1
"""Answers but the winning one."""

Codes = NDArray[np.int64]
"""Numbers of codes, ascending."""


def remaining(guesses: Iterable[tuple[str, Answer]]) -> Codes:
    """Return the codes that agree with all answers."""
    fits = np.ones(len(CODES), np.bool_)
    for guess, (right, misplaced) in guesses:
        fits &= answers()[NUMBERS[guess]] == right * 8 + misplaced
    return np.flatnonzero(fits)


def reach(guesses: int) -> int:
    """Return the most codes that any strategy can find: one a guess, 13 other answers each."""
    return int(sum(_FEWER**k for k in range(min(guesses, 5))))


@lru_cache(maxsize=1)
def _least() -> NDArray[np.int64]:
    """Return a lower bound of the guesses needed in all for each number of codes, (1297,)."""
    totals = [0]
    for _ in CODES:
        depth = next(depth for depth in range(1, 9) if len(totals) <= reach(depth))
        totals.append(totals[-1] + depth)
    return np.array(totals)


@lru_cache(maxsize=1)
def _classes() -> NDArray[np.uint8]:
    """Return the answers counted from 0 to 13, the winning one last, (1296, 1296)."""
    kinds = np.unique(answers())
    table = np.zeros(256, np.uint8)
    table[kinds] = np.arange(_ANSWERS)  # 4 * 8 is the largest
    return table[answers()]


@lru_cache(maxsize=1)
def _places() -> NDArray[np.int64]:
    """Return the place of each answer in the counts of ``_sizes``, laid out flat, (1296, 1296)."""
    return _classes() + _ANSWERS * np.arange(len(CODES))[:, None]


def _sizes(codes: Codes) -> NDArray[np.int64]:
    """Count the codes that give each answer to each guess, (1296, 14)."""
    counts = np.bincount(_places()[:, codes].ravel(), minlength=_ANSWERS * len(CODES))
    return counts.reshape(len(CODES), _ANSWERS)


def _parts(codes: Codes, guess: int) -> list[Codes]:
    """Return the codes by their answer to a guess, without the guess itself, the largest part first."""
    shown = _classes()[guess, codes]
    parts = [codes[shown == kind] for kind in range(_FEWER)]
    return sorted((part for part in parts if len(part)), key=len, reverse=True)


@lru_cache(maxsize=1 << 17)
def _fewest(held: bytes, guesses: int) -> tuple[int, int]:
    """Return the fewest guesses in all that find each of some codes within ``guesses``, and the first one.

    If that is impossible, the total is ``_NEVER``.
    """
    codes = np.frombuffer(held, np.int64)
    count = len(codes)
    if count > reach(guesses):
        return _NEVER, int(codes[0])
    if count <= 2:  # guess one: it is found at once, the other with the next guess
        return 2 * count - 1, int(codes[0])
    sizes = _sizes(codes)
    largest = sizes[:, :_FEWER].max(1)
    bounds = count + _least()[sizes[:, :_FEWER]].sum(1)
    # A guess that tells nothing apart, or leaves more codes than the rest of the guesses can find.
    bounds[(largest == count) | (largest > reach(guesses - 1))] = _NEVER
    best = _NEVER, int(codes[0])
    for guess in np.lexsort((-sizes[:, _FEWER], bounds)):
        if bounds[guess] >= best[0]:
            break
        total = int(bounds[guess])
        for part in _parts(codes, guess):
            total += _fewest(part.tobytes(), guesses - 1)[0] - int(_least()[len(part)])
            if total >= best[0]:
                break
        else:
            best = total, int(guess)
    return best


def strategy(codes: Codes, guesses: int, second: str | None = None) -> int:
    """Return the strategy's guess with so many left; ``second`` is the stored one, where it applies."""
    if len(codes) == len(CODES):
        return NUMBERS[FIRST]
    if second is not None:
        return NUMBERS[second]
    if len(codes) <= EXACT:
        total, guess = _fewest(codes.tobytes(), min(guesses, LONGEST))
        if total < _NEVER:
            return guess
    return _widest(codes)


def _widest(codes: Codes) -> int:
    """Return the guess with the most different answers."""
    sizes = _sizes(codes)
    different = (sizes > 0).sum(1)
    return int(np.lexsort((-sizes[:, _FEWER], sizes.max(1), -different))[0])


class Search:
    """The most of some codes that can be found within a number of guesses, and the guess to begin with."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int], tuple[int, int]] = {}

    def most(self, codes: Codes, guesses: int, first: int | None = None) -> tuple[int, int]:
        """Return the most codes, and a guess that begins such play: ``first`` if it does.

        Raises:
            SolverLimitError: More than ``MAX_STATES`` states were visited.
        """
        if len(codes) == 1 or guesses <= 1:
            return min(len(codes), guesses), int(codes[0])
        state = codes.tobytes(), guesses
        if state not in self._known:
            if len(self._known) >= MAX_STATES:
                raise SolverLimitError(
                    f"more than {MAX_STATES:,} states of Mastermind, and the answer is still open"
                )
            self._known[state] = self._look(codes, guesses, first)
        return self._known[state]

    def _look(self, codes: Codes, guesses: int, first: int | None) -> tuple[int, int]:
        bound = min(len(codes), reach(guesses))
        begin = _widest(codes) if first is None else first
        best = self._found(codes, guesses, begin, -1), begin
        if best[0] == bound:
            return best
        sizes = _sizes(codes)
        hopes = np.minimum(sizes[:, :_FEWER], reach(guesses - 1)).sum(1) + sizes[:, _FEWER]
        for guess in np.argsort(-hopes, kind="stable"):
            if hopes[guess] <= best[0]:
                break
            most = self._found(codes, guesses, int(guess), best[0])
            if most > best[0]:
                best = most, int(guess)
        return best

    def _found(self, codes: Codes, guesses: int, guess: int, beaten: int) -> int:
        """Count the codes found after a guess, or at most ``beaten`` if they are fewer."""
        parts = _parts(codes, guess)
        hopes = [min(len(part), reach(guesses - 1)) for part in parts]
        total = len(codes) - sum(map(len, parts)) + sum(hopes)
        for part, hope in zip(parts, hopes, strict=True):
            if total <= beaten:
                break
            total += self.most(part, guesses - 1)[0] - hope
        return total


def _stored(guesses: Sequence[tuple[str, Answer]]) -> str | None:
    if len(guesses) == 1 and guesses[0][0] == FIRST:
        return SECOND.get(guesses[0][1])
    return None


@search_cache(maxsize=1 << 14)
def advise(guesses: tuple[tuple[str, Answer], ...], solved: bool, budget: Budget) -> Advice:
    """Return the next guess, and the probability to find the code over all that are possible.

    Raises:
        SolverLimitError: The search takes too long, or several guesses a turn may help.
    """
    if solved:
        return Advice((), 1.0, 0.0)
    rounds = min(budget.turns, budget.actions)
    if rounds <= 0:
        return Advice((), 0.0, 0.0)
    codes = remaining(guesses)
    on_path = max(LONGEST - len(guesses), 1)
    most, guess = _most(codes, min(rounds, on_path), _stored(guesses))
    if most < len(codes) and on_path < rounds:
        most, guess = _most(codes, rounds, _stored(guesses))
    value = _share(most, codes, rounds, budget)
    return Advice((" ".join(CODES[guess]),), value, value)


def _most(codes: Codes, guesses: int, second: str | None) -> tuple[int, int]:
    return Search().most(codes, guesses, strategy(codes, guesses, second))


@search_cache(maxsize=1 << 14)
def _value(guesses: tuple[tuple[str, Answer], ...], budget: Budget) -> float:
    """Return the value of ``advise``, without the guess, which takes far longer."""
    rounds = min(budget.turns, budget.actions)
    if rounds <= 0:
        return 0.0
    codes = remaining(guesses)
    return _share(Search().most(codes, rounds)[0], codes, rounds, budget)


def _share(most: int, codes: Codes, rounds: int, budget: Budget) -> float:
    if most < len(codes) and budget.reach > rounds:
        raise SolverLimitError(
            "the optimum of Mastermind is only computed for one guess per turn, but several guesses may find "
            "more codes; set actions_per_turn to 1"
        )
    return most / len(codes)


def value_after(guesses: Sequence[tuple[str, Answer]], new: Sequence[str], budget: Budget) -> float:
    """Return the probability to find the code after a turn with some guesses, seen from before it.

    Raises:
        SolverLimitError: As of ``advise``.
    """
    codes = remaining(guesses)
    rest = Budget(budget.actions - len(new), budget.turns - 1, budget.actions_per_turn)
    shown = answers()[[NUMBERS[guess] for guess in new]][:, codes]
    total = float((shown == _WIN).any(0).sum())
    open_ = codes[~(shown == _WIN).any(0)]
    kinds, which = np.unique(answers()[[NUMBERS[g] for g in new]][:, open_], axis=1, return_inverse=True)
    for kind in range(kinds.shape[1]):
        answered = [(guess, (int(a) // 8, int(a) % 8)) for guess, a in zip(new, kinds[:, kind], strict=True)]
        value = _value((*guesses, *answered), rest)
        total += value * int((which.reshape(-1) == kind).sum())
    return total / len(codes)


def guesses_needed(code: str) -> int:
    """Count the guesses that the strategy needs for a code."""
    answered: list[tuple[str, Answer]] = []
    while True:
        guess = strategy(remaining(answered), LONGEST - len(answered), _stored(answered))
        answer = divmod(int(answers()[guess, NUMBERS[code]]), 8)
        answered.append((CODES[guess], answer))
        if CODES[guess] == code:
            return len(answered)
