"""Advantage estimators, chosen by ``advantage.estimator``: from rewards and values to advantages.

A new one is a function, a registration and a test::

    from ragen_agents.starpo import AdvantageEstimate, Estimator, register_estimator, per_token

    def best_of_group(batch):
        best = torch.stack([batch.returns[batch.groups == g].max() for g in batch.groups])
        return AdvantageEstimate(per_token(batch.returns - best, batch.mask))

    register_estimator(
        Estimator("best-of-group", best_of_group, "return - best of the group", needs_group=True)
    )

``advantage.estimator=best-of-group`` then trains with it. The trainer makes a critic only where
``needs_critic`` says so, and refuses groups of one where ``needs_group`` does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from ragen_agents.rollout.trajectory import CONTEXT, Trajectory
from ragen_agents.starpo.math import advantages as adv
from ragen_agents.starpo.parts.registry import Part, Registry
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_agents.starpo.config import Advantage


@dataclass(frozen=True)
class EstimatorInput:
    """Input of an estimator: a batch of B trajectories and T tokens, without gradient."""

    rewards: Tensor
    """(B, T) float: each turn's reward on its last action token, minus the KL charge of each token
    where ``loss.kl`` is "reward"."""
    values: Tensor | None
    """(B, T) float: the critic's value of the state before each token; None unless ``needs_critic``."""
    returns: Tensor
    """(B,) float: the sum of each trajectory's turn rewards, without any KL charge."""
    groups: Tensor
    """(B,) int64: which group each trajectory belongs to."""
    turn_ids: Tensor
    """(B, T) int64: turn of each action token, from 0; -1 for context and padding."""
    trajectories: Sequence[Trajectory]
    """The B trajectories: their turns, replies and rewards by part."""
    settings: "Advantage"
    """The config's section ``advantage``."""
    params: Mapping[str, float]
    """The estimator's own settings."""

    @property
    def mask(self) -> Tensor:
        """(B, T) bool: the action tokens, which the model wrote."""
        return self.turn_ids != CONTEXT


@dataclass(frozen=True)
class AdvantageEstimate:
    """Output of an estimator."""

    advantages: Tensor
    """(B, T) float; 0 outside the mask."""
    value_targets: Tensor | None = None
    """(B, T) float: what the critic should learn; None without a critic."""
    value_mask: Tensor | None = None
    """(B, T) bool: action tokens with a value target; None for all of them."""


_Function = Callable[[EstimatorInput], AdvantageEstimate]


@dataclass(frozen=True)
class Estimator(Part):
    """An advantage estimator and what it needs from the trainer."""

    function: _Function
    """A pure function of the batch."""
    needs_critic: bool = False
    """Whether it reads ``values``. The trainer then trains a critic, and whitens the advantages where
    ``advantage.whiten`` asks for it; the estimate must have value targets."""
    needs_group: bool = False
    """Whether it compares the members of a group, so that ``rollout.group_size`` must be at least 2."""
    reads_token_rewards: bool = False
    """Whether it reads ``rewards`` rather than ``returns``, so that ``loss.kl=reward`` has an effect."""


ESTIMATORS: Final[Registry[Estimator]] = Registry("advantage.estimator")
"""All estimators by name."""

register_estimator = ESTIMATORS.register
"""Add a part of your own, so that settings can name it."""


def per_token(per_trajectory: Tensor, mask: Tensor) -> Tensor:
    """Return (B, T) with each trajectory's number, (B,), on all of its action tokens and 0 elsewhere."""
    return per_trajectory[:, None].expand(mask.shape).where(mask, 0.0)


def estimate_advantages(estimator: Estimator, batch: EstimatorInput) -> AdvantageEstimate:
    """Return the advantages that an estimator computes.

    Raises:
        RagenError: An estimator of a user's own returned something that an update cannot use.
    """
    estimate = estimator.function(batch)
    if not isinstance(estimate, AdvantageEstimate):
        raise RagenError(
            f"advantage.estimator={estimator.name} returned a {type(estimate).__name__}, but must return an "
            "AdvantageEstimate"
        )
    tensors = (estimate.advantages, estimate.value_targets, estimate.value_mask)
    wrong = [tuple(t.shape) for t in tensors if t is not None and t.shape != batch.mask.shape]
    if wrong or estimator.needs_critic != (estimate.value_targets is not None):
        raise RagenError(
            f"advantage.estimator={estimator.name} must return tensors of the shape "
            f"{tuple(batch.mask.shape)}, with value targets if and only if it needs a critic"
            + (f", but returned {wrong[0]}" if wrong else "")
        )
    # Values that are not finite are those of a critic that has diverged, which the learner reports.
    if (batch.values is None or batch.values.isfinite().all()) and not estimate.advantages.isfinite().all():
        raise RagenError(
            f"advantage.estimator={estimator.name} returned advantages that are not finite; where a group's "
            "returns are equal, their standard deviation is 0"
        )
    return estimate


def _values(batch: EstimatorInput) -> Tensor:
    assert batch.values is not None  # the estimators below need a critic
    return batch.values


def _gae(batch: EstimatorInput) -> AdvantageEstimate:
    given = batch.settings
    return AdvantageEstimate(*adv.gae(batch.rewards, _values(batch), batch.mask, given.gamma, given.lam))


def _turn_gae(batch: EstimatorInput) -> AdvantageEstimate:
    given = batch.settings
    return AdvantageEstimate(
        *adv.turn_gae(batch.rewards, _values(batch), batch.turn_ids, given.turn_gamma, given.turn_lam)
    )


def _bilevel_gae(batch: EstimatorInput) -> AdvantageEstimate:
    given = batch.settings
    return AdvantageEstimate(
        *adv.bilevel_gae(
            batch.rewards, _values(batch), batch.turn_ids, given.gamma, given.lam, given.turn_gamma,
            given.turn_lam, at_last=not batch.params["first_value"],
        )
    )  # fmt: skip


def _of_trajectories(advantages: Callable[[EstimatorInput], Tensor]) -> _Function:
    """Return an estimator that gives all tokens of a trajectory one number."""
    return lambda batch: AdvantageEstimate(per_token(advantages(batch), batch.mask))


def _of_groups(advantages: Callable[[Tensor, Tensor], Tensor]) -> _Function:
    """Return an estimator of one number a trajectory, from returns and groups."""
    return _of_trajectories(lambda batch: advantages(batch.returns, batch.groups))


def _gigpo(batch: EstimatorInput) -> AdvantageEstimate:
    of_group = adv.grpo if batch.params["divide"] else adv.dr_grpo
    turns = [trajectory.turns for trajectory in batch.trajectories]
    lengths = torch.tensor([len(each) for each in turns])
    counts = lengths if batch.params["over_turns"] else torch.ones_like(lengths)
    returns, groups = (each.repeat_interleave(counts) for each in (batch.returns, batch.groups))
    whole = per_token(of_group(returns, groups)[counts.cumsum(0) - 1], batch.mask)
    # The turns of a group that start in the same state are compared with each other.
    gamma = batch.settings.turn_gamma
    ahead = [reward for each in turns for reward in adv.step_returns([t.reward for t in each], gamma)]
    starts = [
        (group, turn.state, turn.budget if batch.params["budget"] else None)
        for group, each in zip(batch.groups.tolist(), turns, strict=True)
        for turn in each
    ]
    numbers = {start: number for number, start in enumerate(starts)}
    alike = torch.tensor([numbers[start] for start in starts])
    steps = of_group(torch.tensor(ahead, dtype=torch.float64), alike).float()
    first = (lengths.cumsum(0) - lengths)[:, None]
    of_tokens = steps[(first + batch.turn_ids).clamp(min=0)]
    return AdvantageEstimate(whole + batch.params["omega"] * torch.where(batch.mask, of_tokens, 0.0))


def _maxrl(batch: EstimatorInput) -> Tensor:
    return adv.maxrl(batch.returns.new_tensor([t.success for t in batch.trajectories]), batch.groups)


def _reinforce_baseline(batch: EstimatorInput) -> AdvantageEstimate:
    return AdvantageEstimate(adv.whiten(_of_groups(adv.dr_grpo)(batch).advantages, batch.mask))


for _estimator in (
    Estimator(
        "grpo", _of_groups(adv.grpo), "(return - mean) / deviation within the group (GRPO, arXiv 2402.03300)",
        needs_group=True,
    ),
    Estimator(
        "rloo", _of_groups(adv.rloo), "return - mean of the others of the group (arXiv 2402.14740)",
        needs_group=True,
    ),
    Estimator(
        "dr-grpo", _of_groups(adv.dr_grpo),
        "return - mean of the group; Dr.GRPO with `loss.agg_mode=seq-mean-token-sum-norm` "
        "(arXiv 2503.20783)",
        needs_group=True, published={"loss.agg_mode": "seq-mean-token-sum-norm"},
    ),
    Estimator(
        "opo", _of_trajectories(lambda batch: adv.opo(batch.returns, batch.groups, batch.mask.sum(1))),
        "return - mean of the group weighted by length (OPO, arXiv 2505.23585)", needs_group=True,
    ),
    Estimator(
        "gpg", _of_groups(adv.gpg),
        "return - mean of the group, divided by the share of trajectories in groups whose returns differ "
        "(GPG, arXiv 2504.02546)",
        needs_group=True, published={"loss.policy_loss": "gpg"},
    ),
    Estimator(
        "maxrl", _of_trajectories(_maxrl),
        "success - mean success of the group, divided by that mean; reads no rewards (MaxRL, arXiv "
        "2602.02710)",
        needs_group=True,
    ),
    Estimator(
        "reinforce++",
        lambda batch: AdvantageEstimate(
            adv.reinforce(batch.rewards, batch.mask, batch.settings.gamma)
        ),
        "rewards from each token on, discounted by `gamma`, whitened over all tokens (REINFORCE++, arXiv "
        "2501.03262)",
        reads_token_rewards=True,
    ),
    Estimator(
        "reinforce++-baseline", _reinforce_baseline,
        "return - mean of the group, whitened over all tokens (REINFORCE++-baseline, arXiv 2501.03262)",
        needs_group=True,
    ),
    Estimator(
        "gigpo", _gigpo,
        "grpo, plus `omega` times the same over the turns of the group that start in the same state, with "
        "returns discounted by `turn_gamma` (GiGPO, arXiv 2505.10978). With `divide=0`, also published, "
        "nothing is divided by deviations. Variants: with `budget=1`, states must also have equal turns and "
        "actions left; with `over_turns=0`, a trajectory counts once in its group, not once per turn",
        needs_group=True, params={"omega": 1.0, "budget": 0.0, "divide": 1.0, "over_turns": 1.0},
        published={
            "advantage.turn_gamma": 0.95, "advantage.params.omega": 1.0,
            "advantage.params.budget": 0.0, "advantage.params.over_turns": 1.0,
        },
    ),
    Estimator(
        "gae", _gae,
        "generalised advantages over action tokens, the paper's PPO (Schulman et al. 2016)",
        needs_critic=True, reads_token_rewards=True,
    ),
    Estimator(
        "turn-gae", _turn_gae,
        "generalised advantages over turns, equal on all tokens of a turn (a method of this project)",
        needs_critic=True, reads_token_rewards=True,
    ),
    Estimator(
        "bilevel-gae", _bilevel_gae,
        "generalised advantages over turns, then over the tokens of each turn (RAGEN v2, arXiv 2504.20073; "
        "there a turn without reward is merged with the next one, and `lam` is also `turn_lam`). Variant: "
        "with `first_value=1`, a turn's value is that before its first token, not its last",
        needs_critic=True, reads_token_rewards=True, params={"first_value": 0.0},
        published={"advantage.turn_gamma": 0.95, "advantage.params.first_value": 0.0},
    ),
):  # fmt: skip
    register_estimator(_estimator)
