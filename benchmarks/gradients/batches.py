"""All batches of a problem, and the mean and variance of what an estimator makes of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, product
from math import factorial, prod
from typing import NamedTuple

import torch
from torch import Tensor

from gradients.problem import Episode, Problem

Batch = tuple[tuple[Episode, ...], ...]
"""A group of episodes for each prompt."""


class Moments(NamedTuple):
    """An estimator's gradient over all batches."""

    mean: Tensor
    """(D,): its expectation."""
    variance: float
    """Expected squared distance from the mean."""


def batches(problem: Problem, size: int) -> Iterator[tuple[float, Batch]]:
    """Yield every batch of groups of a size, each set of replies once, with its probability."""
    groups = [list(_groups(episodes, size)) for episodes in problem.prompts]
    for chosen in product(*groups):
        yield prod(chance for chance, _ in chosen), tuple(group for _, group in chosen)


def moments(problem: Problem, size: int, estimate: Callable[[Batch], Tensor]) -> Moments:
    """Return mean and variance of an estimator over all batches of groups of a size."""
    mean, square, total = torch.zeros_like(problem.gradient), 0.0, 0.0
    for chance, batch in batches(problem, size):
        found = estimate(batch)
        mean = mean + chance * found
        square += chance * float(found @ found)
        total += chance
    assert abs(total - 1) < 1e-9, "probabilities of all batches must add up to 1"
    return Moments(mean, max(square - float(mean @ mean), 0.0))


def _groups(episodes: Sequence[Episode], size: int) -> Iterator[tuple[float, tuple[Episode, ...]]]:
    for places in combinations_with_replacement(range(len(episodes)), size):
        orders = factorial(size) / prod(factorial(n) for n in Counter(places).values())
        yield (
            orders * prod(episodes[p].probability for p in places),
            tuple(episodes[p] for p in places),
        )
