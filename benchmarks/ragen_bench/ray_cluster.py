"""A Ray cluster, whose machines see the folders of runs and models under the same paths."""

import logging
import os
from collections.abc import Callable
from typing import Any

from ragen_envs.errors import RagenError, first_line, install_hint


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
