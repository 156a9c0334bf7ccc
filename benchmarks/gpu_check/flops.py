"""Floating-point operations that an update needs, whatever is computed again."""

from collections.abc import Sequence
from typing import NamedTuple

from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.memory.model_shape import ModelShape

_PASSES = 3
"""A backward pass takes as many operations as two forward passes."""


class Flops(NamedTuple):
    """Operations of one update."""

    policy: float
    critic: float


def update_flops(shape: ModelShape, trajectories: Sequence[Trajectory]) -> Flops:
    """Return the operations of passing trajectories once, the first prompt of a group counted once.

    The head is computed for the tokens that the model wrote, by the policy alone. Attention counts the
    tokens that each token sees.
    """
    prompts = {t.group: t.rows[0].prompt for t in trajectories}
    tokens = sum(len(t.ids) - t.rows[0].prompt for t in trajectories) + sum(prompts.values())
    pairs = sum(prompt**2 / 2 for prompt in prompts.values())
    pairs += sum((len(t.ids) ** 2 - t.rows[0].prompt ** 2) / 2 for t in trajectories)
    trunk = 2 * shape.linear_parameters * tokens + 4 * shape.layers * shape.query_width * pairs
    head = 2 * shape.hidden * shape.vocab_size * sum(t.written for t in trajectories)
    return Flops(_PASSES * (trunk + head), _PASSES * trunk)
