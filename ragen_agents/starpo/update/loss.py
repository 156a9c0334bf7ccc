"""What the losses of an update read, made from scored trajectories, and the losses of its micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.advantages import place_rewards, whiten
from ragen_agents.starpo.math.losses import (
    explained_variance,
    importance_weights,
    kl_estimate,
    value_loss,
    within_bounds,
)
from ragen_agents.starpo.parts.aggregations import AGGREGATIONS, BatchTotals, token_mean
from ragen_agents.starpo.parts.estimators import (
    ESTIMATORS,
    AdvantageEstimate,
    EstimatorInput,
    estimate_advantages,
)
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES, PolicyLossInput, token_loss
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.models import Scores


@dataclass(frozen=True)
class LossInput:
    """The tensors that the losses read, (B, T) each and without gradient."""

    turn_ids: Tensor
    """int64: turn of each action token, from 0; -1 for context and padding."""
    mask: Tensor
    """bool: action tokens that are learned from."""
    old_logprobs: Tensor
    """Log-probabilities under the policy as it was before the update, in nats."""
    advantages: Tensor
    value_targets: Tensor
    value_mask: Tensor
    """bool: tokens with a value target."""
    old_values: Tensor
    weights: Tensor
    """Factors of the policy loss: truncated importance weights, or 1."""
    rollout_logprobs: Tensor
    """Log-probabilities of the engine when it sampled the tokens; the trainer's where it gave none."""
    reference_logprobs: Tensor | None
    """Log-probabilities under the initial policy, if a divergence from it is charged."""

    def part(self, rows: Sequence[int], columns: slice, device: torch.device) -> "LossInput":
        """Return some rows and columns, on a device."""
        cut = {
            name: value[list(rows), columns].to(device)
            for name, value in vars(self).items()
            if value is not None
        }
        return replace(self, **cut)


@dataclass(frozen=True)
class Prepared:
    """A batch that an update can learn from."""

    batch: TrainBatch
    inputs: LossInput
    metrics: dict[str, float] = field(default_factory=dict)


def prepare(
    config: TrainConfig,
    batch: TrainBatch,
    scores: Scores,
    reference_logprobs: Tensor | None,
    is_scored: bool = True,
) -> Prepared:
    """Turn the rewards of scored trajectories into advantages.

    The reference's log-probabilities, (B, T), are None if no divergence is applied. ``is_scored``: the scores
    come from a pass of the trainer, so that the engine's can be compared.
    """
    mask, logprobs = batch.mask, scores.logprobs
    estimate = _estimate(config, batch, scores, reference_logprobs)
    targets = estimate.value_targets
    value_mask = mask if estimate.value_mask is None else estimate.value_mask
    metrics = {"entropy": _mean(scores.entropies[mask])}
    known = mask & batch.rollout_logprobs.isfinite()
    rollout = torch.where(known, batch.rollout_logprobs, logprobs)
    if is_scored and known.any():
        gap = (logprobs - rollout)[known].abs()
        metrics["mismatch_mean"] = _mean(gap)
        metrics["mismatch_max"] = float(gap.max())
    weights, learned = torch.ones_like(logprobs), mask
    if config.loss.tis_cap is not None:
        weights = importance_weights(logprobs, rollout, config.loss.tis_cap)
    if config.loss.mis_bounds is not None:
        learned = within_bounds(logprobs, rollout, mask, *config.loss.mis_bounds)
        metrics["masked_share"] = 1.0 - _mean(learned[mask].float())
    if reference_logprobs is not None:
        metrics["kl_to_initial"] = _mean((logprobs - reference_logprobs)[mask])
    if targets is not None:
        metrics["explained_variance"] = explained_variance(scores.values[value_mask], targets[value_mask])
    inputs = LossInput(
        turn_ids=batch.turn_ids, mask=learned, old_logprobs=logprobs, advantages=estimate.advantages,
        value_targets=torch.zeros_like(scores.values) if targets is None else targets,
        value_mask=value_mask, old_values=scores.values, weights=weights,
        rollout_logprobs=rollout,
        reference_logprobs=reference_logprobs,
    )  # fmt: skip
    return Prepared(batch, inputs, metrics)


def _estimate(
    config: TrainConfig, batch: TrainBatch, scores: Scores, reference_logprobs: Tensor | None
) -> AdvantageEstimate:
    estimator, dtype = ESTIMATORS[config.advantage.estimator], scores.logprobs.dtype
    rewards = place_rewards([[turn.reward for turn in t.turns] for t in batch.trajectories], batch.turn_ids)
    if config.loss.kl == "reward" and reference_logprobs is not None:
        gap = kl_estimate(scores.logprobs, reference_logprobs, config.loss.kl_estimator)
        rewards = rewards - config.loss.kl_coef * torch.where(batch.mask, gap, 0.0)
    estimate = estimate_advantages(
        estimator,
        EstimatorInput(  # copies, so that an estimator that writes into them changes nothing else
            rewards=rewards,
            values=scores.values.clone() if estimator.needs_critic else None,
            returns=torch.tensor([t.episode_return for t in batch.trajectories], dtype=torch.float32),
            groups=batch.groups.clone(),
            turn_ids=batch.turn_ids.clone(),
            trajectories=batch.trajectories,
            settings=config.advantage,
            params={**estimator.params, **config.advantage.params},
        ),
    )
    advantages, targets = estimate.advantages.to(dtype), estimate.value_targets
    if estimator.needs_critic and config.advantage.whiten:
        advantages = whiten(advantages, batch.mask)
    targets = None if targets is None else targets.to(dtype)
    return replace(estimate, advantages=advantages, value_targets=targets)


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0


def batch_totals(config: TrainConfig, inputs: LossInput, rows: list[int]) -> BatchTotals:
    """Return the counts of an optimizer batch, by which its micro-batches are normalised."""
    mask = inputs.mask[rows]
    return BatchTotals(
        tokens=float(mask.sum()),
        sequences=float(mask.any(1).sum()),
        value_tokens=float(inputs.value_mask[rows].sum()),
        length=float(config.rollout.max_tokens),
    )


class LossTerms(NamedTuple):
    """Terms of which the policy's loss is a weighted sum."""

    policy: Tensor
    entropy: Tensor
    """Entropy of the policy; the loss has it with a negative weight."""
    divergence: Tensor | None
    """Divergence from the initial policy; None unless ``loss.kl`` is "loss"."""
    metrics: dict[str, Tensor]


def policy_loss(
    config: TrainConfig, scores: Scores, inputs: LossInput, totals: BatchTotals
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss of the policy and its metrics; for the arguments see `loss_terms`."""
    terms = loss_terms(config, scores, inputs, totals)
    loss = terms.policy - config.loss.entropy_coef * terms.entropy
    if terms.divergence is not None:
        loss = loss + config.loss.kl_coef * terms.divergence
    return loss, terms.metrics


def loss_terms(config: TrainConfig, scores: Scores, inputs: LossInput, totals: BatchTotals) -> LossTerms:
    """Return the terms of the policy's loss, none of them weighted, and its metrics."""
    settings = config.loss

    def mean(per_token: Tensor) -> Tensor:
        return AGGREGATIONS[settings.agg_mode].function(per_token, inputs.mask, totals)

    chosen = POLICY_LOSSES[settings.policy_loss]
    # Copies, so that a loss that writes into them changes no other term and no metric.
    given = PolicyLossInput(
        logprobs=scores.logprobs.clone(), old_logprobs=inputs.old_logprobs.clone(),
        rollout_logprobs=inputs.rollout_logprobs.clone(), advantages=inputs.advantages.clone(),
        turn_ids=inputs.turn_ids.clone(), mask=inputs.mask.clone(), settings=settings,
        params={**chosen.params, **settings.params},
    )  # fmt: skip
    surrogate = token_loss(chosen, given)
    policy = mean(surrogate.loss * inputs.weights)
    divergence = None
    if settings.kl == "loss" and inputs.reference_logprobs is not None:
        divergence = mean(kl_estimate(scores.logprobs, inputs.reference_logprobs, settings.kl_estimator))
    metrics = {
        "policy_loss": policy,
        "entropy_after": token_mean(scores.entropies, inputs.mask, totals),
        "clip_fraction": token_mean(surrogate.clipped.float(), inputs.mask, totals),
        "kl_step": token_mean(kl_estimate(inputs.old_logprobs, scores.logprobs, "k3"), inputs.mask, totals),
    }
    return LossTerms(policy, mean(scores.entropies), divergence, metrics)


def critic_loss(config: TrainConfig, scores: Scores, inputs: LossInput, totals: BatchTotals) -> Tensor:
    """Return the value loss: the mean over all tokens of the optimizer batch that have a target."""
    errors = value_loss(scores.values, inputs.old_values, inputs.value_targets, config.loss.cliprange_value)
    return torch.where(inputs.value_mask, errors, 0.0).sum() / max(totals.value_tokens, 1.0)
