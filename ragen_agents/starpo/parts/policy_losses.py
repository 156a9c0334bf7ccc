"""Policy losses: what ``loss.policy_loss`` chooses among. A new one is added like an estimator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from ragen_agents.starpo.math.losses import (
    TokenLoss,
    clipped_surrogate,
    clipped_weight,
    sequence_logprobs,
)
from ragen_agents.starpo.parts.registry import Registry, is_projects
from ragen_envs.game.errors import RagenError

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
class PolicyLoss:
    """A policy loss."""

    name: str
    """Its name in ``loss.policy_loss``."""
    function: Callable[[PolicyLossInput], TokenLoss]
    """Returns the loss of each token; tokens outside the mask are ignored."""
    summary: str
    """One line for the documentation, with the source."""
    agg_mode: str | None = None
    """The ``loss.agg_mode`` that it was published with, if it is part of the method; the trainer warns where
    another one is set."""
    params: Mapping[str, float] = field(default_factory=dict)
    """Its own settings and their defaults, set by ``loss.params``."""


POLICY_LOSSES: Final[Registry[PolicyLoss]] = Registry("loss.policy_loss", PolicyLoss)
"""All policy losses by name."""

register_policy_loss = POLICY_LOSSES.register
"""Add a part of your own, so that settings can name it; raises `RagenError` if it or its name is refused."""


def token_loss(chosen: PolicyLoss, given: PolicyLossInput) -> TokenLoss:
    """Return the loss of each token.

    Raises:
        RagenError: The policy loss returned no `TokenLoss`, or a tensor of it is not what it must be.
    """
    found = _checked(chosen.function(given), chosen.name, given.mask)
    if not is_projects(chosen.function):
        _check_finite(found.loss, chosen.name, given)
    return found


def _check_finite(loss: Tensor, name: str, given: PolicyLossInput) -> None:
    """Check that a policy loss returned finite numbers where the model did."""
    if loss[given.mask].isfinite().all() or not given.logprobs[given.mask].isfinite().all():
        return
    raise RagenError(
        f"loss.policy_loss={name} returned a loss that is not finite, although the log-probabilities are"
    )


def _checked(found: Any, name: str, mask: Tensor) -> TokenLoss:
    """Return what a policy loss returned, if an update can use it."""
    where = f"loss.policy_loss={name} returned"
    if not isinstance(found, TokenLoss):
        raise RagenError(f"{where} a {type(found).__name__}, but must return a TokenLoss")
    for part in ("loss", "clipped"):
        value = getattr(found, part)
        if not isinstance(value, Tensor):
            raise RagenError(f"{where} '{part}' that is a {type(value).__name__}, not a tensor")
    if found.loss.shape != mask.shape:
        raise RagenError(
            f"{where} a loss of the shape {tuple(found.loss.shape)}, but must be {tuple(mask.shape)}"
        )
    if found.clipped.shape != mask.shape or found.clipped.dtype != torch.bool:
        raise RagenError(f"{where} 'clipped' that is not bool of the shape {tuple(mask.shape)}")
    if torch.is_grad_enabled() and not found.loss.requires_grad:
        raise RagenError(f"{where} a loss without a gradient, so that nothing would be learned")
    return found


def _ppo_clip(part: PolicyLossInput) -> TokenLoss:
    how = part.settings
    return clipped_surrogate(
        part.logprobs, part.old_logprobs, part.advantages, how.clip_ratio_low, how.clip_ratio_high,
        how.dual_clip,
    )  # fmt: skip


def _gspo(part: PolicyLossInput) -> TokenLoss:
    return _of_sequences(part, torch.where(part.mask, 0, -1))


def _gspo_turn(part: PolicyLossInput) -> TokenLoss:
    return _of_sequences(part, torch.where(part.mask, part.turn_ids, -1))


def _of_sequences(part: PolicyLossInput, sequences: Tensor) -> TokenLoss:
    how = part.settings
    return clipped_surrogate(
        sequence_logprobs(part.logprobs, sequences), sequence_logprobs(part.old_logprobs, sequences),
        part.advantages, how.clip_ratio_low, how.clip_ratio_high, how.dual_clip,
    )  # fmt: skip


def _cispo(part: PolicyLossInput) -> TokenLoss:
    how = part.settings
    return clipped_weight(
        part.logprobs, part.old_logprobs, part.advantages, how.clip_ratio_low, how.clip_ratio_high
    )


for _loss in (
    PolicyLoss("ppo-clip", _ppo_clip, "PPO's clipped surrogate (Schulman et al. 2017)"),
    PolicyLoss(
        "gspo", _gspo,
        "PPO's surrogate with one ratio for each trajectory, the geometric mean of its tokens' (GSPO, arXiv "
        "2507.18071; published with clips of 3e-4 and 4e-4)",
        agg_mode="seq-mean-token-mean",
    ),
    PolicyLoss(
        "gspo-turn", _gspo_turn,
        "the same with one ratio for each turn",
    ),
    PolicyLoss(
        "cispo", _cispo,
        "log-probability times the clipped ratio as a constant, so that no token loses its gradient (CISPO, "
        "arXiv 2506.13585)",
    ),
):  # fmt: skip
    register_policy_loss(_loss)
