"""Losses of StarPO: pure functions of log-probabilities, advantages and masks, (B, T) each."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]
Term = Literal["policy", "entropy", "divergence"]
"""A term of the policy's loss."""


@dataclass(frozen=True)
class TokenLoss:
    """A policy loss, per token."""

    loss: Tensor
    """(B, T), to be minimised; not masked."""
    clipped: Tensor
    """(B, T) bool: tokens at which the clip acts."""


def clipped_surrogate(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, low: float, high: float,
    dual: float | None = None,
) -> TokenLoss:  # fmt: skip
    """Return PPO's clipped loss (Schulman et al. 2017) with separate bounds (clip-higher, DAPO).

    Args:
        logprobs: Under the policy that is trained.
        old_logprobs: Under the policy that the ratio is taken to; without gradient.
        advantages: Per token.
        low: The ratio is clipped to at least 1 - low.
        high: And to at most 1 + high.
        dual: Where the advantage is negative the loss is at most ``-dual * advantage`` (dual clip, Ye et
            al. 2020), with ``dual`` > 1; None for no such bound.
    """
    ratio = torch.exp((logprobs - old_logprobs).clamp(-20.0, 20.0))
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1.0 - low, 1.0 + high)
    loss = torch.maximum(plain, bounded)
    clipped = bounded > plain
    if dual is not None:
        ceiling = -advantages * dual
        beyond = (advantages < 0) & (ceiling < loss)
        loss = torch.where(beyond, ceiling, loss)
        clipped = clipped | beyond
    return TokenLoss(loss, clipped)


def clipped_weight(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, low: float | None, high: float
) -> TokenLoss:
    """Return CISPO's loss (MiniMax 2025, arXiv 2506.13585): the clipped ratio weighs log pi, as a constant.

    Arguments are those of ``clipped_surrogate``; without ``low`` there is no lower bound.
    """
    ratio = torch.exp((logprobs - old_logprobs).clamp(-20.0, 20.0)).detach()
    bounded = ratio.clamp(None if low is None else 1.0 - low, 1.0 + high)
    return TokenLoss(-bounded * advantages * logprobs, bounded != ratio)


def with_sequence_ratio(log_ratios: Tensor, mask: Tensor) -> Tensor:
    """Return log-ratios with the value of their sequence's mean and each token's own gradient, (B, T).

    The token form of GSPO (arXiv 2507.18071, section 4.3): with one advantage per sequence its gradient is
    that of the mean, and different advantages of tokens do not cancel.

    Args:
        log_ratios: (B, T), with gradient.
        mask: (B, T) bool, the tokens of each row's sequence.
    """
    own = log_ratios.detach()
    mean = torch.where(mask, own, 0.0).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    return log_ratios - own + mean


def geometric_mean(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, low: float, high: float
) -> TokenLoss:  # fmt: skip
    """Return GMPO's loss (arXiv 2507.20673): the ratio is the geometric mean of the tokens' clipped ratios.

    Arguments are those of ``clipped_surrogate``, but log-ratios are clipped, to [-low, high].
    """
    gap = logprobs - old_logprobs
    clipped = torch.where(advantages > 0, gap > high, gap < -low) & (advantages != 0)
    bounded = torch.where(clipped, gap.detach().clamp(-low, high), gap)
    return TokenLoss(-advantages * with_sequence_ratio(bounded, mask).exp(), clipped)


def value_loss(values: Tensor, old: Tensor, returns: Tensor, clip: float | None = None) -> Tensor:
    """Return half the squared error per token.

    With ``clip`` it is the larger one of the values' error and that of the values clipped to within
    ``clip`` of the old ones, as in the published code of PPO (Schulman et al. 2017).
    """
    error = (values - returns) ** 2
    if clip is not None:
        near = old + (values - old).clamp(-clip, clip)
        error = torch.maximum(error, (near - returns) ** 2)
    return 0.5 * error


def kl_estimate(logprobs: Tensor, reference: Tensor, kind: KlEstimator) -> Tensor:
    """Return an estimate of KL(policy || reference) per token, sampled from the policy (Schulman 2020).

    k1 is unbiased and may be negative; k2 is half the squared log-ratio, whose gradient is that of the KL;
    k3 is unbiased, never negative, and its gradient is not that of the KL.
    """
    gap = logprobs - reference
    if kind == "k1":
        return gap
    if kind == "k2":
        return 0.5 * gap**2
    return torch.exp((-gap).clamp(-20.0, 20.0)) - 1.0 + gap


def importance_weights(old_logprobs: Tensor, rollout_logprobs: Tensor, cap: float) -> Tensor:
    """Return truncated importance weights min(pi_trainer / pi_engine, cap) per token, without gradient.

    They correct for an engine whose arithmetic, or whose weights, differ from the trainer's.
    """
    return torch.exp((old_logprobs - rollout_logprobs).clamp(-20.0, 20.0)).clamp(max=cap).detach()


def within_bounds(
    old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, low: float, high: float
) -> Tensor:
    """Return the tokens whose ratio pi_trainer / pi_engine lies in [low, high], (B, T) bool."""
    gap = old_logprobs - rollout_logprobs
    return mask & (gap >= math.log(low)) & (gap <= math.log(high))


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return 1 - Var(returns - values) / Var(returns); 0 where the returns do not vary. (n,) each."""
    spread = returns.var() if len(returns) > 1 else returns.new_zeros(())
    if spread <= 1e-12:
        return 0.0
    return float(1.0 - (returns - values).var() / spread)
