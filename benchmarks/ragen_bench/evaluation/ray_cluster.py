"""A Ray cluster, whose machines see the folders of runs and models under the same paths."""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from ragen_bench.config.task_environment import task_environment
from ragen_envs.game.errors import RagenError, first_line, install_hint

_RETRIES: Final = 5
"""How often Ray repeats a call whose machine or process was lost."""
_AHEAD: Final = 4
"""Calls that are submitted for each that fits, so that a machine that joins has work."""


class RayCluster:
    """The cluster at ``RAY_ADDRESS``, or a local one that ends with this process.

    Args:
        threads: CPUs that each task requests, >= 1.
        gpus: GPUs that each task requests: a whole number, or a fraction of one.

    Raises:
        RagenError: Ray is not installed or cannot be reached, or no machine is large enough for a task.
    """

    def __init__(self, threads: int, gpus: float) -> None:
        if gpus > 1 and not gpus.is_integer():
            raise RagenError(
                f"--gpus is {gpus:g}, but must be a whole number, or a fraction of one"
            )
        self.ray = _connected()
        self.threads = threads
        self._resources = {"num_cpus": threads, "num_gpus": gpus}
        machines = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        self.slots = sum(_fitting(machine, threads, gpus) for machine in machines)
        """Number of tasks that fit at the same time."""
        if not self.slots:
            most = [max((m.get(name, 0) for m in machines), default=0) for name in ("CPU", "GPU")]
            raise RagenError(
                f"a task needs {threads} CPUs and {gpus:g} GPUs of one machine, but the cluster's "
                f"machines have at most {most[0]:g} and {most[1]:g}; see --gpus"
            )

    def remote(self, function: Callable[..., Any], **options: Any) -> Any:
        """Return a function as a Ray task with the resources of each task."""
        return self.ray.remote(**self._resources, **options)(function)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a pure function returns on some machine.

        Raises:
            RagenError: The function raised one, or its machine was lost too often.
        """
        return next(self.map(function, [arguments]))

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Yield what a pure function returns for each tuple of arguments, in their order.

        A call whose machine is lost is repeated elsewhere.

        Raises:
            RagenError: The function raised one, or a machine was lost too often.
        """
        variables = {"env_vars": task_environment(self.threads)}
        task = self.remote(function, max_retries=_RETRIES, runtime_env=variables)
        waiting = (task.remote(*each) for each in arguments)
        queued = deque(islice(waiting, self.slots * _AHEAD))
        while queued:
            yield self._result(queued.popleft())
            queued += islice(waiting, 1)

    def _result(self, task: Any) -> Any:
        errors = self.ray.exceptions
        try:
            return self.ray.get(task)
        except errors.RayTaskError as error:
            if isinstance(error.cause, RagenError):
                raise RagenError(f"on the cluster: {error.cause}") from error
            raise
        except errors.RayError as error:
            raise RagenError(
                f"the cluster lost the same work {_RETRIES + 1} times: {first_line(error)}"
            ) from error


def _connected() -> Any:
    try:
        import ray
    except ImportError:
        raise RagenError(f"--backend ray needs ray; {install_hint('ray')}") from None
    address = os.environ.get("RAY_ADDRESS") or "local"
    own: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        if not ray.is_initialized():
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RagenError(
            f"RAY_ADDRESS is '{address}', but there is no such cluster: {first_line(error)}"
        ) from error
    return ray


def _fitting(machine: dict[str, float], threads: int, gpus: float) -> int:
    """Return the number of tasks that fit on a machine at the same time."""
    by_cpu = machine.get("CPU", 0) // threads
    return int(min(by_cpu, machine.get("GPU", 0) // gpus) if gpus else by_cpu)
