"""GiGPO's second level: replies of a group that were given in the same state (arXiv 2505.10978)."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

_SAME = 1e-8
"""Standard deviations below this are those of equal returns."""


def step_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Return the discounted sum of rewards from each turn on.

    Args:
        rewards: Of each turn of an episode.
        gamma: Discount per turn.
    """
    found: list[float] = []
    ahead = 0.0
    for reward in reversed(rewards):
        ahead = reward + gamma * ahead
        found.append(ahead)
    return found[::-1]


def step_advantages(
    returns: Sequence[Sequence[float]], states: Sequence[Sequence[Hashable]],
    groups: Sequence[int], divide: bool,
) -> list[list[float]]:  # fmt: skip
    """Return (return - mean) / deviation over the turns of a group that start in the same state.

    The deviation is the sample's (n - 1). A turn whose state no other turn of the group shares has
    advantage 0, and so have turns of equal returns.

    Args:
        returns: From each turn on, of B episodes.
        states: What identifies the state before each turn.
        groups: Group of each episode.
        divide: Whether to divide by the deviation.

    Returns:
        One number a turn, in the shape of ``returns``.
    """
    alike: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for row, (group, before) in enumerate(zip(groups, states, strict=True)):
        for turn, state in enumerate(before):
            alike[group, state].append((row, turn))
    advantages = [[0.0] * len(each) for each in returns]
    for places in alike.values():
        inside = torch.tensor([returns[row][turn] for row, turn in places], dtype=torch.float64)
        spread = float(inside.std()) if len(places) > 1 else 0.0
        if spread <= _SAME:
            continue
        centred = (inside - inside.mean()) / (spread if divide else 1.0)
        for (row, turn), value in zip(places, centred.tolist(), strict=True):
            advantages[row][turn] = value
    return advantages


def per_turn(values: Sequence[Sequence[float]], turn_ids: Tensor) -> Tensor:
    """Return (B, T) with each turn's number on all of its action tokens and 0 elsewhere."""
    longest = max([1, *map(len, values)])
    table = torch.zeros(len(values), longest)
    for row, each in enumerate(values):
        table[row, : len(each)] = torch.tensor(each)
    inside = turn_ids >= 0
    found = table.to(turn_ids.device).gather(1, turn_ids.clamp(min=0, max=longest - 1))
    return torch.where(inside, found, 0.0)
