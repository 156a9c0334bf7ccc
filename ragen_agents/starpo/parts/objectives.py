"""Policy losses and their aggregations: what ``loss.policy_loss`` and ``loss.agg_mode`` choose among.

A new one is a function, a registration and a test, as for estimators.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from ragen_agents.starpo.math.losses import TokenLoss, clipped_surrogate
from ragen_agents.starpo.parts.registry import Registry

if TYPE_CHECKING:
    from ragen_agents.starpo.config import Loss


@dataclass(frozen=True)
class PolicyLossInput:
    """What a policy loss sees of a micro-batch of B whole trajectories and T tokens."""

    logprobs: Tensor
    """(B, T) float, with gradient: under the policy that is trained, in nats."""
    old_logprobs: Tensor
    """(B, T) float: under the policy that the ratio is taken to."""
    advantages: Tensor
    """(B, T) float."""
    turn_ids: Tensor
    """(B, T) int64: turn of each action token, from 0; -1 for context and padding."""
    settings: "Loss"
    """The config's section ``loss``."""


@dataclass(frozen=True)
class PolicyLoss:
    """A policy loss."""

    name: str
    """Its name in ``loss.policy_loss``."""
    function: Callable[[PolicyLossInput], TokenLoss]
    """Returns the loss of each token; tokens outside the mask are ignored."""
    summary: str
    """One line for the documentation, with the source."""


@dataclass(frozen=True)
class BatchTotals:
    """Counts over a whole optimizer batch, of which a micro-batch is a part."""

    tokens: float
    """Action tokens."""
    sequences: float
    """Trajectories with action tokens."""
    value_tokens: float
    """Tokens with a value target."""
    length: float
    """The constant ``loss.length_norm``."""


@dataclass(frozen=True)
class Aggregation:
    """A way to reduce per-token losses to one number.

    Its denominator counts the whole optimizer batch, so that the sum over micro-batches does not depend on
    how the batch is cut.
    """

    name: str
    """Its name in ``loss.agg_mode``."""
    function: Callable[[Tensor, Tensor, BatchTotals], Tensor]
    """Reduces (B, T) losses under a (B, T) bool mask to a scalar."""
    summary: str
    """One line for the documentation, with the source."""


POLICY_LOSSES: Final[Registry[PolicyLoss]] = Registry("loss.policy_loss")
"""All policy losses by name."""
AGGREGATIONS: Final[Registry[Aggregation]] = Registry("loss.agg_mode")
"""All aggregations by name."""

register_policy_loss = POLICY_LOSSES.register
register_aggregation = AGGREGATIONS.register


def _ppo_clip(part: PolicyLossInput) -> TokenLoss:
    how = part.settings
    return clipped_surrogate(
        part.logprobs, part.old_logprobs, part.advantages, how.clip_ratio_low, how.clip_ratio_high,
        how.dual_clip,
    )  # fmt: skip


def token_mean(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    """Return the mean over all action tokens of the batch."""
    return torch.where(mask, per_token, 0.0).sum() / max(totals.tokens, 1.0)


def _seq_mean_token_mean(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    means = torch.where(mask, per_token, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    return means.sum() / max(totals.sequences, 1.0)


def _seq_mean_token_sum_norm(per_token: Tensor, mask: Tensor, totals: BatchTotals) -> Tensor:
    return torch.where(mask, per_token, 0.0).sum() / (max(totals.sequences, 1.0) * totals.length)


register_policy_loss(
    PolicyLoss("ppo-clip", _ppo_clip, "PPO's clipped surrogate (Schulman et al. 2017)")
)
for _aggregation in (
    Aggregation("token-mean", token_mean, "the mean over all action tokens (DAPO, arXiv 2503.14476)"),
    Aggregation(
        "seq-mean-token-mean", _seq_mean_token_mean,
        "the mean over trajectories of their means over tokens (the paper's formula)",
    ),
    Aggregation(
        "seq-mean-token-sum-norm", _seq_mean_token_sum_norm,
        "the mean over trajectories of their sums over tokens, divided by the constant "
        "`loss.length_norm` (Dr.GRPO, arXiv 2503.20783)",
    ),
):  # fmt: skip
    register_aggregation(_aggregation)
