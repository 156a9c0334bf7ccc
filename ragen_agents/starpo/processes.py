"""What the processes of a distributed run do together."""

from collections.abc import Sequence

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_envs.errors import RagenError


def collect_on_all(
    collector: Collector, specs: Sequence[GroupSpec], iteration: int, accelerator: Accelerator
) -> list[Trajectory]:
    """Collect this process's share of the groups, and return all processes' in their order."""
    world, rank = accelerator.num_processes, accelerator.process_index
    mine = collector.collect(specs[rank::world], iteration)
    every: list[Trajectory] = gather_object(mine) if world > 1 else mine
    return sorted(every, key=lambda t: (t.group, t.member))


def any_process(mine: bool, accelerator: Accelerator) -> bool:
    """Return whether the flag is set in any process."""
    if accelerator.num_processes == 1:
        return mine
    return any(gather_object([mine]))


def agree(error: RagenError | None, accelerator: Accelerator) -> None:
    """Raise the main process's error in every process, so that none goes on alone."""
    if accelerator.num_processes > 1:
        message = [None if error is None else str(error)]
        broadcast_object_list(message)
        if error is None and message[0] is not None:
            raise RagenError(message[0])
    if error is not None:
        raise error
