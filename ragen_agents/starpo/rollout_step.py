"""The first half of an iteration: play the groups, and choose what is learned from."""

from collections.abc import Sequence

from accelerate import Accelerator

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.parts.filters import keep_groups
from ragen_agents.starpo.processes import collect_on_all
from ragen_agents.starpo.run.metrics import group_returns
from ragen_envs.conversation import EndReason
from ragen_envs.seeding import advance, below, new_stream


def training_groups(config: TrainConfig, iteration: int) -> list[GroupSpec]:
    """Return the groups of an iteration, counted from 0: ``group_size`` episodes from each of P levels."""
    count = config.rollout.prompts_per_iteration
    specs = []
    for group in range(count):
        stream = new_stream(f"levels {config.seed}", config.game, iteration * count + group)
        if config.levels:
            pick = below(advance(stream), config.levels)
            stream = new_stream(f"level {config.seed}", config.game, pick)
        specs.append(GroupSpec(group, config.rollout.group_size, {"seed": stream}))
    return specs


def kept_groups(
    config: TrainConfig, trajectories: Sequence[Trajectory], iteration: int
) -> list[int]:
    """Return the groups that the config's filter keeps, of the iteration counted from 0."""
    how = config.filter
    returns = group_returns(trajectories, game_only=not config.reward.in_filter)
    seed = new_stream("filter", str(config.seed), iteration)
    return keep_groups(returns, how.kind, how.ratio, seed, how.params)


def learnable(trajectories: Sequence[Trajectory], kept: Sequence[int]) -> list[Trajectory]:
    """Return the trajectories of the kept groups that an update can learn from.

    Those whose game broke, and those in which the model wrote nothing, are left out.
    """
    return [t for t in trajectories if t.group in kept and t.end != EndReason.ERROR and t.written]


class RolloutStep:
    """Plays the groups of each iteration on all processes.

    Args:
        config: The run's.
        collector: Plays this process's share.
        accelerator: The processes.
    """

    def __init__(self, config: TrainConfig, collector: Collector, accelerator: Accelerator) -> None:
        self._config, self._collector, self._accelerator = config, collector, accelerator

    def collect(self, iteration: int) -> list[Trajectory]:
        """Return all trajectories of an iteration, counted from 0."""
        groups = training_groups(self._config, iteration)
        return collect_on_all(self._collector, groups, iteration, self._accelerator)

    @property
    def game_seconds(self) -> float:
        """Seconds that the games and the bookkeeping of the last collection took."""
        return self._collector.clock.games
