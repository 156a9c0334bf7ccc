"""Play rollouts and evaluations, and select groups by the uncertainty filter."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from accelerate import Accelerator

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.parts.filters import Returns, apply_filter
from ragen_agents.starpo.processes import collect_on_all
from ragen_agents.starpo.run.metrics import group_returns, rollout_metrics
from ragen_envs.conversation import EndReason
from ragen_envs.levels.seeding import advance, below, new_stream
from ragen_envs.levels.splits import VALIDATION

_NOISE_OF_GROUP: Final = 1 << 32
"""Noise numbers that a group has for itself; more than a run has episodes of it."""


def training_groups(config: TrainConfig, iteration: int, refill: int = 0) -> list[GroupSpec]:
    """Return the groups of an iteration, counted from 0: ``group_size`` episodes from each of P levels.

    Each ``refill``, from 1, has other levels, and groups numbered after those before it.
    """
    count = config.rollout.prompts_per_iteration
    purpose = f"levels {config.seed}" + (f" refill {refill}" if refill else "")
    specs = []
    for place in range(count):
        group = refill * count + place
        options = {"seed": new_stream(purpose, config.game, iteration * count + place)}
        if config.levels:  # two groups may have one level, but not its chance events
            pick = below(advance(options["seed"]), config.levels)
            level = new_stream(f"level {config.seed}", config.game, pick)
            options = {"seed": level, "noise": group * _NOISE_OF_GROUP}
        specs.append(GroupSpec(group, config.rollout.group_size, options))
    return specs


def group_numbers(trajectories: Sequence[Trajectory]) -> list[int]:
    """Return the numbers of all groups, ascending."""
    return sorted({t.group for t in trajectories})


def filtered_returns(config: TrainConfig, trajectories: Sequence[Trajectory]) -> Returns:
    """Return the returns that the filter looks at, if it does, of each group in ascending order."""
    game_only = config.filter.reads_returns and not config.reward.in_filter
    return group_returns(trajectories, game_only=game_only)


def filter_groups(config: TrainConfig, trajectories: Sequence[Trajectory], iteration: int) -> list[int]:
    """Return the numbers of the groups that the config's filter keeps, of the iteration counted from 0."""
    group_filter = config.filter
    seed = new_stream("filter", str(config.seed), iteration)
    kept = apply_filter(
        filtered_returns(config, trajectories),
        group_filter.kind,
        group_filter.ratio,
        seed,
        group_filter.params,
    )
    numbers = group_numbers(trajectories)
    return [numbers[i] for i in kept]


def learnable(trajectories: Sequence[Trajectory], kept: Sequence[int]) -> list[Trajectory]:
    """Return the trajectories of the kept groups that an update can learn from.

    Those whose game failed, and those in which the model wrote nothing, are left out.
    """
    return [t for t in trajectories if t.group in kept and t.end != EndReason.ERROR and t.written]


class Played(NamedTuple):
    """The rollouts of an iteration."""

    trajectories: list[Trajectory]
    """All of them."""
    candidates: list[Trajectory]
    """Trajectories among which the filter chooses."""
    game_seconds: float
    """Seconds that the games and the bookkeeping took in this process."""


def play_iteration(
    config: TrainConfig, iteration: int, collector: Collector, accelerator: Accelerator
) -> Played:
    """Play an iteration, counted from 0, on all processes, with the refills that ``filter.refill`` allows."""
    count, seconds = config.rollout.prompts_per_iteration, 0.0
    played: list[Trajectory] = []
    candidates: list[Trajectory] = []
    for refill in range(config.filter.refill + 1):
        if refill and len(group_numbers(candidates)) >= count:
            break
        groups = training_groups(config, iteration, refill)
        fresh = collect_on_all(collector, groups, iteration, accelerator)
        played += fresh
        candidates += _differing(config, fresh) if config.filter.refill else fresh
        seconds += collector.game_seconds
    first = group_numbers(candidates)[:count]
    return Played(played, [t for t in candidates if t.group in first], seconds)


def _differing(config: TrainConfig, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the trajectories of groups whose returns differ, in what the filter looks at."""
    numbers = group_numbers(trajectories)
    differ = {numbers[i] for i in apply_filter(filtered_returns(config, trajectories), "nonzero", 1.0, 0)}
    return [t for t in trajectories if t.group in differ]


_EVALUATED: Final = ("success", "return", "valid", "effective", "reply_tokens")
"""Names of the metrics of an evaluation, which also has the shares of true claims."""


def evaluate(
    episodes: int, collector: Collector, accelerator: Accelerator
) -> tuple[dict[str, float], list[Trajectory]]:
    """Play the first validation instances, one episode each; returns metrics, and the trajectories."""
    groups = [GroupSpec(i, 1, {"split": VALIDATION, "index": i}) for i in range(episodes)]
    trajectories = collect_on_all(collector, groups, 0, accelerator)
    means = rollout_metrics(trajectories)
    names = [*_EVALUATED, *(name for name in means if name.startswith("claims/"))]
    return {f"validation/{name}": means[name] for name in names}, trajectories
