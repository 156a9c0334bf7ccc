"""Prepare scored trajectories for the losses: rewards, advantages, targets, weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.advantages import place_rewards, whiten
from ragen_agents.starpo.math.losses import explained_variance, importance_weights, kl_estimate, within_bounds
from ragen_agents.starpo.parts.estimators import (
    ESTIMATORS,
    AdvantageEstimate,
    EstimatorInput,
    estimate_advantages,
)
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
    config: TrainConfig, batch: TrainBatch, scores: Scores, reference_logprobs: Tensor | None,
    is_scored: bool = True,
) -> Prepared:  # fmt: skip
    """Turn the rewards of scored trajectories into advantages.

    The reference's log-probabilities, (B, T), are None if no divergence is applied. ``is_scored`` says
    whether the scores come from a pass of the trainer, so that the engine's can be compared.
    """
    mask, logprobs = batch.mask, scores.logprobs
    estimate = _estimate(config, batch, scores, reference_logprobs)
    targets = estimate.value_targets
    value_mask = mask if estimate.value_mask is None else estimate.value_mask
    weights = torch.ones_like(logprobs)
    known = mask & batch.rollout_logprobs.isfinite()
    rollout = torch.where(known, batch.rollout_logprobs, logprobs)
    if config.loss.tis_cap is not None:
        weights *= importance_weights(logprobs, rollout, config.loss.tis_cap)
    learned = mask
    if config.loss.mis_bounds is not None:
        learned = within_bounds(logprobs, rollout, mask, *config.loss.mis_bounds)
    metrics = {"entropy": _mean(scores.entropies[mask])}
    if is_scored and known.any():
        gap = (logprobs - rollout)[known].abs()
        metrics["mismatch_mean"] = _mean(gap)
        metrics["mismatch_max"] = float(gap.max())
    if config.loss.mis_bounds is not None:
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
    estimator = ESTIMATORS[config.advantage.estimator]
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
    dtype, targets = scores.logprobs.dtype, estimate.value_targets
    estimate = replace(
        estimate, advantages=estimate.advantages.to(dtype),
        value_targets=None if targets is None else targets.to(dtype),
    )  # fmt: skip
    if estimator.needs_critic and config.advantage.whiten:
        estimate = replace(estimate, advantages=whiten(estimate.advantages, batch.mask))
    return estimate


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else 0.0
