"""Steps that all processes of a distributed run take together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch.distributed import distributed_c10d

from ragen_agents.engines.base import EngineError
from ragen_agents.engines.device import is_out_of_memory
from ragen_agents.rollout.collect import Collector, GroupSpec
from ragen_agents.rollout.trajectory import Trajectory
from ragen_agents.starpo.run.errors import MemoryRanOutError
from ragen_envs.errors import RagenError

T = TypeVar("T")
_KINDS: Final = (EngineError, MemoryRanOutError, RagenError)
"""Errors that processes raise together. An error counts as the first of these that it is an instance of."""


class RunProcesses:
    """All processes of a run, as one of them sees them."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.count: int = accelerator.num_processes
        self.rank: int = accelerator.process_index
        self.is_first = self.rank == 0
        """Whether this is the one that writes."""
        self._store = None
        if self.count > 1:
            self._store = distributed_c10d._get_default_store()

    def together(self, work: Callable[[], T]) -> T:
        """Call a function in all processes, and raise the error of any of them in every one."""
        return together(work, self._accelerator)

    def from_first(self, value: T) -> T:
        """Return the first process's value; all call this together."""
        return from_all(value, self._accelerator)[0]

    def acquire(self, name: str) -> bool:
        """Acquire the lock, unless another process holds it."""
        if self._store is None or self._store.add(f"ragen {name}", 1) == 1:
            return True
        self._store.add(f"ragen {name}", -1)
        return False

    def release(self, name: str) -> None:
        """Release the lock."""
        if self._store is not None:
            self._store.add(f"ragen {name}", -1)


def collect_on_all(
    collector: Collector, specs: Sequence[GroupSpec], iteration: int, accelerator: Accelerator
) -> list[Trajectory]:
    """Collect this process's share of the groups, and return all processes' in their order.

    Raises:
        RagenError: That of any process, in every process.
        MemoryRanOutError: Memory ran out in any of several processes; raised in every process.
    """
    world, rank = accelerator.num_processes, accelerator.process_index
    mine = together(partial(collector.collect, specs[rank::world], iteration), accelerator)
    every: list[Trajectory] = gather_object(mine) if world > 1 else mine
    return sorted(every, key=lambda t: (t.group, t.member))


def together(work: Callable[[], T], accelerator: Accelerator) -> T:
    """Call a function without collective operations in all processes, and return its result.

    Raises:
        RagenError: That of any process, in every process.
        MemoryRanOutError: Memory ran out in any of several processes; raised in every process.
    """
    if accelerator.num_processes == 1:
        return work()
    error: RagenError | MemoryRanOutError | None = None
    try:
        result = work()
    except RagenError as raised:
        error = raised
    except (RuntimeError, MemoryError) as raised:
        if not is_out_of_memory(raised):
            raise
        error = MemoryRanOutError("memory ran out in one of the processes")
    if isinstance(error, MemoryRanOutError):
        # Not in the handler, where the frames of what was raised still hold what did not fit.
        torch.cuda.empty_cache()
    agree(error, accelerator)
    return result


def from_all(mine: T, accelerator: Accelerator) -> list[T]:
    """Return the values of all processes; all call this together."""
    values: list[T] = [mine] if accelerator.num_processes == 1 else gather_object([mine])
    return values


def agree(error: RagenError | MemoryRanOutError | None, accelerator: Accelerator) -> None:
    """Raise the error of any process in every process, so that none goes on alone.

    If several processes fail in different ways, all raise the same of their errors.
    """
    if accelerator.num_processes > 1:
        kinds = [k for k, kind in enumerate(_KINDS) if isinstance(error, kind)]
        mine = [(kinds[0], str(error))] if kinds else []
        errors = gather_object(mine)
        if errors and min(errors) not in mine:
            kind, text = min(errors)
            raise _KINDS[kind](text)
    if error is not None:
        raise error
