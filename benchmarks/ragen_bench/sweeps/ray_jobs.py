"""The tasks of a sweep on a Ray cluster, whose machines see the sweep's folder under the same path."""

import logging
import os
from pathlib import Path
from typing import Any

from ragen_bench.sweeps.jobs import Job, Leashed, task_environment
from ragen_envs.errors import RagenError, first_line

_LOST = 1
"""Exit code of a task whose machine or process was lost."""


class OnRay:
    """Lets Ray place tasks; each waits until a machine has what it declares.

    The cluster is the one that ``RAY_ADDRESS`` names, or one of this machine alone that ends with this
    process. Ray's own retries are off: a task that is lost is tried again by the pool.

    Args:
        threads: Processors that each task declares, and threads that it has, >= 1.
        gpus: GPUs that each task declares: a whole number, or a share of one.

    Raises:
        RagenError: Ray is not installed or cannot be reached, or no machine could ever do a task.
    """

    def __init__(self, threads: int, gpus: float) -> None:
        if gpus > 1 and not gpus.is_integer():
            raise RagenError(
                f"--gpus is {gpus:g}, but must be a whole number, or a share of one GPU"
            )
        self._ray = _connected()
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self.slots = sum(_fitting(machine, threads, gpus) for machine in machines)
        if not self.slots:
            most = [max((m.get(name, 0) for m in machines), default=0) for name in ("CPU", "GPU")]
            raise RagenError(
                f"a task wants {threads} processors and {gpus:g} GPUs of one machine, but the cluster's "
                f"machines have at most {most[0]:g} and {most[1]:g}; see --gpus"
            )
        self._environment = task_environment(threads)
        self._work = self._ray.remote(max_retries=0, num_cpus=threads, num_gpus=gpus)(_work)

    def start(self, folder: Path) -> Job:
        """Hand the task of a folder to Ray."""
        return _RayJob(self._ray, self._work.remote(str(folder), self._environment))


def _connected() -> Any:
    try:
        import ray
    except ImportError:
        raise RagenError(
            "--on ray needs ray; install it with pip install 'ragen-suite[ray]'"
        ) from None
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
    """Return how many tasks find room on a machine at the same time."""
    by_cpu = machine.get("CPU", 0) // threads
    return int(min(by_cpu, machine.get("GPU", 0) // gpus) if gpus else by_cpu)


class _RayJob:
    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference
        self.why = ""

    def poll(self) -> int | None:
        """Return the exit code, or None while it waits or runs."""
        ended, _ = self._ray.wait([self._reference], timeout=0)
        return self._code() if ended else None

    def cancel(self) -> None:
        """Cancel it. The process of the task ends with that of Ray's worker, which holds its leash."""
        self._ray.cancel(self._reference, force=True)

    def wait(self) -> None:
        """Return when Ray's worker has ended."""
        self._code()

    def _code(self) -> int:
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.RayError as error:
            self.why = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return _LOST


def _work(folder: str, environment: dict[str, str]) -> int:
    """Do a task on the machine that Ray has chosen and return its exit code."""
    return Leashed(Path(folder), environment).process.wait()
