"""Aggregations of per-token losses, chosen by ``loss.agg_mode``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ragen_agents.starpo.parts.registry import Part, Registry


@dataclass(frozen=True)
class BatchTotals:
    """Counts over a whole mini-batch, of which a micro-batch is a part."""

    tokens: float
    """Action tokens."""
    sequences: float
    """Trajectories with action tokens."""
    value_tokens: float
    """Tokens with a value target."""
    length: float
    """``rollout.max_tokens``."""


@dataclass(frozen=True)
class Aggregation(Part):
    """A way to reduce per-token losses to one number.

    Its denominator counts the whole mini-batch, so that the sum over micro-batches does not depend on how
    the mini-batch is split.
    """

    function: Callable[[Tensor, Tensor, BatchTotals], Tensor]
    """Reduces (B, T) losses under a (B, T) bool mask to a scalar."""


AGGREGATIONS: Final[Registry[Aggregation]] = Registry("loss.agg_mode")
"""All aggregations by name."""

register_aggregation = AGGREGATIONS.register
"""Add a part of your own, so that settings can name it."""


def token_mean(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    """Return the mean over all action tokens of the mini-batch."""
    return torch.where(mask, per_token, 0.0).sum() / max(totals.tokens, 1.0)


def _seq_mean_token_mean(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    means = torch.where(mask, per_token, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    return means.sum() / max(totals.sequences, 1.0)


def _seq_mean_token_sum(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    return torch.where(mask, per_token, 0.0).sum() / max(totals.sequences, 1.0)


def _seq_mean_token_sum_norm(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    return _seq_mean_token_sum(per_token, mask, totals) / totals.length


for _aggregation in (
    Aggregation("token-mean", token_mean, "the mean over all action tokens (DAPO, arXiv 2503.14476)"),
    Aggregation(
        "seq-mean-token-mean", _seq_mean_token_mean,
        "the mean over trajectories of their means over tokens (the paper's formula)",
    ),
    Aggregation(
        "seq-mean-token-sum", _seq_mean_token_sum,
        "the mean over trajectories of their sums over tokens, the policy gradient itself (REINFORCE, "
        "Williams 1992)",
    ),
    Aggregation(
        "seq-mean-token-sum-norm", _seq_mean_token_sum_norm,
        "the mean over trajectories of their sums over tokens, divided by "
        "`rollout.max_tokens` (Dr.GRPO, arXiv 2503.20783)",
    ),
):  # fmt: skip
    register_aggregation(_aggregation)
