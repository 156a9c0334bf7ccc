"""The gradient of one batch by the trainer's own parts: filter, estimator, policy loss, aggregation.

Nothing of them is written again here. What is known exactly is only the policy: log-probabilities are those
of the table, and their gradients by its logits too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gradients.batches import Batch
from gradients.problem import Episode
from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_agents.starpo import ESTIMATORS, TrainConfig
from ragen_agents.starpo.math.advantages import whiten
from ragen_agents.starpo.parts.aggregations import AGGREGATIONS, BatchTotals
from ragen_agents.starpo.parts.estimators import EstimatorInput
from ragen_agents.starpo.parts.filters import apply_filter
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES, PolicyLossInput


class Rows(NamedTuple):
    """Episodes as tensors, (B, T) each."""

    groups: Tensor
    """(B,) int64."""
    turn_ids: Tensor
    rewards: Tensor
    """On the last token of each episode."""
    values: Tensor
    episodes: Sequence[Episode]

    @property
    def mask(self) -> Tensor:
        """(B, T) bool."""
        return self.turn_ids >= 0

    def ascent(self, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """Return minus the gradient by the logits, (D,), of a loss of the log-probabilities, (B, T)."""
        logprobs = torch.zeros(self.turn_ids.shape, dtype=torch.float64, requires_grad=True)
        (weights,) = torch.autograd.grad(loss(logprobs), logprobs)
        parts = [weights[row, : episode.tokens] @ episode.scores for row, episode in enumerate(self.episodes)]
        return -torch.stack(parts).sum(0)


def rows_of(batch: Batch, chosen: Sequence[int], longest: int) -> Rows:
    """Return the episodes of some groups as tensors of a width."""
    rows = [(number, episode) for number in chosen for episode in batch[number]]
    shape = (len(rows), longest)
    turn_ids = torch.full(shape, -1)
    rewards, values = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
    for row, (_, episode) in enumerate(rows):
        turn_ids[row, : episode.tokens] = 0
        rewards[row, episode.tokens - 1] = episode.reward
        values[row, : episode.tokens] = episode.values
    groups = torch.tensor([number for number, _ in rows])
    return Rows(groups, turn_ids, rewards, values, [episode for _, episode in rows])


@dataclass(frozen=True)
class Method:
    """Parts of the trainer that are put together; names are those of the config."""

    estimator: str
    aggregation: str = "token-mean"
    filter: str = "none"
    ratio: float = 0.5
    policy_loss: str = "ppo-clip"
    whiten: bool = False
    longest: int = 4
    """The constant length of seq-mean-token-sum-norm."""

    def __call__(self, batch: Batch) -> Tensor:
        """Return the direction of ascent that the batch gives, (D,)."""
        returns = [np.array([e.reward for e in group]) for group in batch]
        kept = apply_filter(returns, self.filter, self.ratio, 0)
        if not kept:
            return torch.zeros_like(batch[0][0].scores[0])
        rows = rows_of(batch, kept, self.longest)
        advantages = self._advantages(rows)
        totals = BatchTotals(float(rows.mask.sum()), float(len(rows.episodes)), 0.0, float(self.longest))
        chosen, config = POLICY_LOSSES[self.policy_loss], _config(self)

        def loss(logprobs: Tensor) -> Tensor:
            old = logprobs.detach()
            per_token = chosen.function(
                PolicyLossInput(
                    logprobs=logprobs, old_logprobs=old, rollout_logprobs=old,
                    advantages=advantages, turn_ids=rows.turn_ids, mask=rows.mask,
                    settings=config.loss, params=chosen.params,
                )
            ).loss  # fmt: skip
            return AGGREGATIONS[self.aggregation].function(per_token, rows.mask, totals)

        return rows.ascent(loss)

    def _advantages(self, rows: Rows) -> Tensor:
        estimator = ESTIMATORS[self.estimator]
        numbered = zip(rows.groups.tolist(), rows.episodes, strict=True)
        found = estimator.function(
            EstimatorInput(
                rewards=rows.rewards, values=rows.values if estimator.needs_critic else None,
                returns=rows.rewards.sum(1), groups=rows.groups, turn_ids=rows.turn_ids,
                trajectories=[_trajectory(number, episode) for number, episode in numbered],
                settings=_config(self).advantage, params=estimator.params,
            )
        ).advantages  # fmt: skip
        return whiten(found, rows.mask) if self.whiten else found


@lru_cache(maxsize=64)
def _config(method: Method) -> TrainConfig:
    return TrainConfig.model_validate(
        {"advantage": {"estimator": method.estimator}, "loss": {"policy_loss": method.policy_loss}}
    )


def _trajectory(group: int, episode: Episode) -> Trajectory:
    made = Trajectory(group, 0, [0])
    made.append_reply([0] * episode.tokens, [0.0] * episode.tokens)
    made.turns.append(TrajectoryTurn("", {"game": episode.reward}, True, True, 1, False))
    return made
