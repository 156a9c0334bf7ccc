"""Optimizers of policy and critic, and their learning rates."""

import math
from typing import Any

import torch
from torch import nn

from ragen_agents.starpo.config import Update


def make_optimizer(
    weights: list[nn.Parameter], learning_rate: float, how: Update
) -> torch.optim.AdamW:
    """Return an optimizer; weight decay spares what has fewer than two dimensions: biases and norms."""
    # One group without decay, as the state is saved by the number of a weight in all groups.
    groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": 0.0}]
    if how.weight_decay:
        decayed = [weight for weight in weights if weight.ndim >= 2]
        spared = [weight for weight in weights if weight.ndim < 2]
        groups = [
            {"params": decayed, "weight_decay": how.weight_decay},
            {"params": spared, "weight_decay": 0.0},
        ]
    fused = weights[0].is_cuda  # one kernel in place of several, without temporary tensors
    return torch.optim.AdamW(groups, lr=learning_rate, betas=how.betas, fused=fused or None)


def rate_factor(how: Update, iterations: int, done: float) -> float:
    """Return the factor of the learning rates of an optimizer step, in [0, 1].

    The formulas are those of ``transformers.get_scheduler``, with iterations in place of steps.

    Args:
        how: Schedule and warm-up.
        iterations: Of the run.
        done: Iterations before the step; a fraction within one, so that each of its steps has its own.
    """
    if done < how.warmup_iterations:
        return done / how.warmup_iterations
    if how.lr_scheduler_type == "constant":
        return 1.0
    progress = (done - how.warmup_iterations) / (iterations - how.warmup_iterations)
    if how.lr_scheduler_type == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def set_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Have an optimizer take its next steps at a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
