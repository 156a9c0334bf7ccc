"""Which levels are played: fresh or repeated ones in training, frozen ones in evaluation."""

from collections.abc import Sequence

from accelerate import Accelerator
from accelerate.utils import gather_object

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.config import TrainConfig
from ragen_envs.seeding import advance, below, new_stream
from ragen_envs.splits import VALIDATION


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


def validation_groups(config: TrainConfig) -> list[GroupSpec]:
    """Return the first validation instances, one episode each."""
    return [
        GroupSpec(i, 1, {"split": VALIDATION, "index": i})
        for i in range(config.evaluation.episodes)
    ]


def collect_on_all(
    collector: Collector, specs: Sequence[GroupSpec], iteration: int, accelerator: Accelerator
) -> list[Trajectory]:
    """Collect this process's share of the groups, and return all processes' in their order."""
    world, rank = accelerator.num_processes, accelerator.process_index
    mine = collector.collect(specs[rank::world], iteration)
    every: list[Trajectory] = gather_object(mine) if world > 1 else mine
    return sorted(every, key=lambda t: (t.group, t.member))
