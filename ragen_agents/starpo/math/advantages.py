"""Advantages: pure functions of rewards, values and the mask of what the model wrote.

Shapes: B trajectories, T tokens. All are float tensors unless said; what lies outside ``mask`` is never
read and comes out as 0. Context tokens between two turns contribute nothing: the token after the last of
one turn is the first of the next.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

_SAME = 1e-8
"""Numbers that lie no further apart are equal, and deviations below this are those of equal returns."""


def grpo(returns: Tensor, groups: Tensor) -> Tensor:
    """Return (R - mean) / std within each group (Shao et al. 2024), (B,).

    The standard deviation is the sample's (n - 1), as in verl and TRL. A group of one and a group of equal
    returns have advantage 0.

    Args:
        returns: (B,), of whole trajectories.
        groups: (B,) int64, which group each belongs to.
    """
    return _per_group(returns, groups, lambda inside, _: (inside - inside.mean()) / inside.std())


def _per_group(returns: Tensor, groups: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return a function of each group's returns and mask of members, and 0 for groups of equal returns."""
    advantages = torch.zeros_like(returns)
    for group in groups.unique():
        members = groups == group
        if _differ(returns[members]):
            advantages[members] = function(returns[members], members)
    return advantages


def _differ(numbers: Tensor) -> bool:
    """Return whether numbers are not all equal.

    The deviation cannot tell: the mean of equal numbers may be rounded, and then it is not 0.
    """
    return bool(numbers.max() - numbers.min() > _SAME)


def dr_grpo(returns: Tensor, groups: Tensor) -> Tensor:
    """Return R minus the mean of the group, not divided by a deviation (Liu et al. 2025), (B,).

    Arguments are those of ``grpo``. A group of equal returns has advantage 0.
    """
    return _per_group(returns, groups, lambda inside, _: inside - inside.mean())


def rloo(returns: Tensor, groups: Tensor) -> Tensor:
    """Return R minus the mean of the *others* of the group (Ahmadian et al. 2024, arXiv 2402.14740), (B,).

    Arguments are those of ``grpo``. A group of one and a group of equal returns have advantage 0.
    """
    return _per_group(returns, groups, lambda inside, _: inside - (inside.sum() - inside) / (len(inside) - 1))


def opo(returns: Tensor, groups: Tensor, lengths: Tensor) -> Tensor:
    """Return R minus the mean of the group weighted by length (OPO, arXiv 2505.23585), (B,).

    This baseline has the least variance if the squared norm of a gradient is proportional to the length: the
    action tokens of a trajectory, (B,). Other arguments are those of ``grpo``.
    """

    def centred(inside: Tensor, members: Tensor) -> Tensor:
        return inside - (inside * lengths[members]).sum() / lengths[members].sum()

    return _per_group(returns, groups, centred)


def gpg(returns: Tensor, groups: Tensor) -> Tensor:
    """Return R minus the mean of the group, times the batch's size over that of groups that differ, (B,).

    So groups of equal returns do not shrink the gradient (GPG, arXiv 2504.02546, alpha).
    """
    advantages = dr_grpo(returns, groups)
    differ = _per_group(returns, groups, lambda inside, _: torch.ones_like(inside)).sum()
    return advantages * len(returns) / differ.clamp(min=1)


def maxrl(successes: Tensor, groups: Tensor) -> Tensor:
    """Return (success - mean) / mean within each group (MaxRL, arXiv 2602.02710), (B,).

    Successes, (B,), are 0 or 1; groups are those of ``grpo``.
    """
    return _per_group(successes, groups, lambda inside, _: inside / inside.mean() - 1)


def reinforce(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Return the discounted rewards from each action token on, whitened (REINFORCE++, arXiv 2501.03262).

    Arguments are those of ``gae``; (B, T).
    """
    to_go, _ = gae(rewards, torch.zeros_like(rewards), mask, gamma, 1.0)
    return whiten(to_go, mask)


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float, ends: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return generalised advantages and returns over action tokens only (Schulman et al. 2016).

    Episodes end with their last action token: nothing is bootstrapped after it (the paper's horizon is
    finite and told in the prompt).

    Args:
        rewards: (B, T), each turn's reward on its last action token.
        values: (B, T), of the state before each token.
        mask: (B, T) bool, action tokens.
        gamma: Discount per action token.
        lam: Lambda per action token.
        ends: (B, T) bool, action tokens over which nothing flows; by default the last of each row.

    Returns:
        Advantages and returns (advantage + value), (B, T) each.
    """
    advantages = torch.zeros_like(values)
    carried = values.new_zeros(values.shape[0])
    following = values.new_zeros(values.shape[0])
    for t in range(values.shape[1] - 1, -1, -1):
        inside = mask[:, t]
        if ends is not None:
            carried, following = (each.masked_fill(ends[:, t], 0.0) for each in (carried, following))
        step = rewards[:, t] + gamma * following - values[:, t] + gamma * lam * carried
        carried = torch.where(inside, step, carried)
        following = torch.where(inside, values[:, t], following)
        advantages[:, t] = torch.where(inside, step, 0.0)
    return advantages, torch.where(mask, advantages + values, 0.0)


def turn_gae(
    rewards: Tensor, values: Tensor, turn_ids: Tensor, gamma: float, lam: float,
    at_last: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return advantages over turns, equal on all tokens of a turn.

    A turn's value is that before its first action token; its reward is the sum of its tokens'. Turns are
    told by their ids, so a turn without reward is a turn.

    Args:
        rewards: (B, T).
        values: (B, T).
        turn_ids: (B, T) int64, -1 for context.
        gamma: Discount per turn.
        lam: Lambda per turn.
        at_last: Whether a turn's value is that before its last action token instead.

    Returns:
        Advantages (B, T); returns (B, T), at the token of each turn whose value is read; the mask of those.
    """
    read = _last_tokens(turn_ids) if at_last else _first_tokens(turn_ids)
    count = int(turn_ids.max()) + 1
    index = turn_ids.clamp(min=0)
    mask = turn_ids >= 0
    shape = (values.shape[0], max(count, 1))
    value = values.new_zeros(shape).scatter_add_(1, index, torch.where(read, values, 0.0))
    reward = values.new_zeros(shape).scatter_add_(1, index, torch.where(mask, rewards, 0.0))
    exists = torch.zeros(shape, dtype=torch.int64, device=values.device)
    exists = exists.scatter_add_(1, index, mask.long()) > 0
    over_turns, _ = gae(reward, value, exists, gamma, lam)
    advantages = torch.where(mask, over_turns.gather(1, index), 0.0)
    return advantages, torch.where(read, advantages + values, 0.0), read


def bilevel_gae(
    rewards: Tensor, values: Tensor, turn_ids: Tensor, gamma: float, lam: float,
    turn_gamma: float, turn_lam: float, at_last: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return advantages over turns, then over the tokens inside each turn (RAGEN v2, bi-level GAE).

    The turn's return, advantage + value from ``turn_gae``, is what its tokens lead to: inside the turn it
    takes the place of the reward at the last token, and nothing flows over the turn's end. The value of a
    turn is that before its last token, as published, or before its first.

    Returns:
        Advantages and returns, (B, T) each.
    """
    _, turn_returns, read = turn_gae(rewards, values, turn_ids, turn_gamma, turn_lam, at_last)
    index, last = turn_ids.clamp(min=0), _last_tokens(turn_ids)
    shape = (values.shape[0], int(index.max()) + 1)
    goals = values.new_zeros(shape).scatter_add_(1, index, torch.where(read, turn_returns, 0.0))
    goal = torch.where(last, goals.gather(1, index), 0.0)
    return gae(goal, values, turn_ids >= 0, gamma, lam, ends=last)


def whiten(advantages: Tensor, mask: Tensor) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1 over the tokens of the mask.

    With fewer than two tokens, or equal advantages, only the mean is taken off.
    """
    inside = advantages[mask]
    if len(inside) == 0:
        return advantages
    scale = inside.std() if _differ(inside) else inside.new_ones(())
    return torch.where(mask, (advantages - inside.mean()) / scale, 0.0)


def place_rewards(turn_rewards: list[list[float]], turn_ids: Tensor) -> Tensor:
    """Return (B, T) with each turn's reward on its last action token.

    A turn without any token (an empty reply) gives its reward to the action token before it, or after it
    if there is none before.
    """
    placed = torch.zeros(turn_ids.shape)
    for row, rewards in enumerate(turn_rewards):
        ids = turn_ids[row].cpu()
        written = torch.nonzero(ids >= 0)[:, 0]
        if len(written) == 0:
            continue
        for turn, reward in enumerate(rewards):
            before = written[ids[written] <= turn]
            placed[row, before[-1] if len(before) else written[0]] += reward
    return placed.to(turn_ids.device)


def step_returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """Return the sum of an episode's rewards from each turn on, discounted by ``gamma`` per turn."""
    return list(accumulate(reversed(rewards), lambda ahead, reward: reward + gamma * ahead))[::-1]


def _first_tokens(turn_ids: Tensor) -> Tensor:
    """Return the first token of each turn; (B, T) bool."""
    before = torch.nn.functional.pad(turn_ids[:, :-1], (1, 0), value=-1)
    return (turn_ids >= 0) & (turn_ids != before)


def _last_tokens(turn_ids: Tensor) -> Tensor:
    """Return the last token of each turn; (B, T) bool."""
    after = torch.nn.functional.pad(turn_ids[:, 1:], (0, 1), value=-1)
    return (turn_ids >= 0) & (turn_ids != after)
