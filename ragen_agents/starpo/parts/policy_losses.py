"""Policy losses, chosen by ``loss.policy_loss``. A new one is added like an estimator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from ragen_agents.starpo.math.losses import (
    TokenLoss,
    clipped_surrogate,
    clipped_weight,
    geometric_mean,
    with_sequence_ratio,
)
from ragen_agents.starpo.parts.registry import Part, Registry
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_agents.starpo.config import Loss


@dataclass(frozen=True)
class PolicyLossInput:
    """Input of a policy loss: a micro-batch of B whole trajectories and T tokens."""

    logprobs: Tensor
    """(B, T) float, with gradient: under the policy that is trained, in nats."""
    old_logprobs: Tensor
    """(B, T) float: under the policy that the ratio is taken to."""
    rollout_logprobs: Tensor
    """(B, T) float: the engine's when it sampled the tokens."""
    advantages: Tensor
    """(B, T) float."""
    turn_ids: Tensor
    """(B, T) int64: turn of each action token, from 0; -1 for context and padding."""
    mask: Tensor
    """(B, T) bool: action tokens."""
    settings: "Loss"
    """The config's section ``loss``."""
    params: Mapping[str, float]
    """The loss's own settings."""


@dataclass(frozen=True)
class PolicyLoss(Part):
    """A policy loss."""

    function: Callable[[PolicyLossInput], TokenLoss]
    """Returns the loss of each token; tokens outside the mask are ignored."""


POLICY_LOSSES: Final[Registry[PolicyLoss]] = Registry("loss.policy_loss")
"""All policy losses by name."""

register_policy_loss = POLICY_LOSSES.register
"""Add a part of your own, so that settings can name it."""


def token_loss(chosen: PolicyLoss, batch: PolicyLossInput) -> TokenLoss:
    """Return the loss of each token.

    Raises:
        RagenError: A policy loss of a user's own returned something that an update cannot use.
    """
    result = chosen.function(batch)
    shape = batch.mask.shape
    if result.loss.shape != shape or result.clipped.shape != shape:
        raise RagenError(
            f"loss.policy_loss={chosen.name} returned tensors of the shapes {tuple(result.loss.shape)} and "
            f"{tuple(result.clipped.shape)}, but must return {tuple(shape)}"
        )
    if torch.is_grad_enabled() and not result.loss.requires_grad:
        raise RagenError(
            f"loss.policy_loss={chosen.name} returned a loss without a gradient, so that nothing would be "
            "learned"
        )
    return result


def _ppo_clip(batch: PolicyLossInput) -> TokenLoss:
    given = batch.settings
    return clipped_surrogate(
        batch.logprobs, batch.old_logprobs, batch.advantages, given.clip_ratio_low,
        given.clip_ratio_high, given.dual_clip,
    )  # fmt: skip


def _gspo(batch: PolicyLossInput) -> TokenLoss:
    log_ratios = with_sequence_ratio(batch.logprobs - batch.old_logprobs, batch.mask)
    return _ppo_clip(replace(batch, logprobs=log_ratios, old_logprobs=torch.zeros_like(log_ratios)))


def _gmpo(batch: PolicyLossInput) -> TokenLoss:
    given = batch.settings
    return geometric_mean(
        batch.logprobs, batch.old_logprobs, batch.advantages, batch.mask, given.clip_ratio_low,
        given.clip_ratio_high,
    )  # fmt: skip


def _cispo(batch: PolicyLossInput) -> TokenLoss:
    given = batch.settings
    return clipped_weight(
        batch.logprobs, batch.old_logprobs, batch.advantages,
        given.clip_ratio_low if batch.params["lower"] else None, given.clip_ratio_high,
    )  # fmt: skip


for _loss in (
    PolicyLoss("ppo-clip", _ppo_clip, "PPO's clipped surrogate (Schulman et al. 2017)"),
    PolicyLoss(
        "gspo", _gspo,
        "PPO's surrogate with one ratio for each trajectory, the geometric mean of its tokens', and the "
        "gradient of each token (GSPO-token, arXiv 2507.18071)",
        published={
            "loss.agg_mode": "seq-mean-token-mean", "loss.clip_ratio_low": 3e-4,
            "loss.clip_ratio_high": 4e-4,
        },
    ),
    PolicyLoss(
        "gmpo", _gmpo,
        "as gspo, but log-ratios of tokens are clipped, to -`loss.clip_ratio_low` and "
        "`loss.clip_ratio_high`, before their mean is taken (GMPO, arXiv 2507.20673)",
        published={
            "loss.agg_mode": "seq-mean-token-mean", "loss.clip_ratio_low": 0.4,
            "loss.clip_ratio_high": 0.4,
        },
    ),
    PolicyLoss(
        "gpg",
        lambda batch: TokenLoss(-batch.advantages * batch.logprobs, torch.zeros_like(batch.mask)),
        "log-probability times advantage, without a ratio or clip (GPG, arXiv 2504.02546)",
    ),
    PolicyLoss(
        "cispo", _cispo,
        "log-probability times the clipped ratio as a constant, so that no token loses its gradient (CISPO, "
        "arXiv 2506.13585). With `lower=1`, the ratio also has the lower bound",
        published={"loss.agg_mode": "token-mean", "loss.params.lower": 0.0}, params={"lower": 0.0},
    ),
):  # fmt: skip
    register_policy_loss(_loss)
