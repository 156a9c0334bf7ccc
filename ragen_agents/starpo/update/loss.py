"""The loss of a micro-batch: policy loss, entropy bonus, divergence and value loss, weighted."""

from typing import NamedTuple

import torch
from torch import Tensor

from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.math.losses import kl_estimate, value_loss
from ragen_agents.starpo.parts.aggregations import AGGREGATIONS, BatchTotals, token_mean
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES, PolicyLossInput, token_loss
from ragen_agents.starpo.update.models import Scores
from ragen_agents.starpo.update.prepared import LossInput


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
