"""The tasks of a sweep on a Ray cluster, whose machines see the sweep's folder under the same path."""

import logging
import os
from pathlib import Path
from typing import Any

from ragen_bench.sweeps.jobs import Job, LocalProcess, task_environment
from ragen_envs.errors import RagenError, first_line, install_hint

_LOST = 1
"""Exit code of a task whose machine or process was lost."""


class OnRay:
    """Runs tasks on Ray; each waits until a machine has the resources that it requests.

    The cluster is the one at ``RAY_ADDRESS``, or a local one that ends with this process.
    Ray's own retries are off: the pool retries a task that is lost.

    Args:
        threads: CPUs that each task requests, and threads that it uses, >= 1.
        gpus: GPUs that each task requests: a whole number, or a fraction of one.

    Raises:
        RagenError: Ray is not installed or cannot be reached, or no machine is large enough for a task.
    """

    def __init__(self, threads: int, gpus: float) -> None:
        if gpus > 1 and not gpus.is_integer():
            raise RagenError(
                f"--gpus is {gpus:g}, but must be a whole number, or a fraction of one"
            )
        self._ray = _connected()
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self.slots = sum(_fitting(machine, threads, gpus) for machine in machines)
        if not self.slots:
            most = [max((m.get(name, 0) for m in machines), default=0) for name in ("CPU", "GPU")]
            raise RagenError(
                f"a task needs {threads} CPUs and {gpus:g} GPUs of one machine, but the cluster's "
                f"machines have at most {most[0]:g} and {most[1]:g}; see --gpus"
            )
        self._environment = task_environment(threads)
        self._work = self._ray.remote(max_retries=0, num_cpus=threads, num_gpus=gpus)(_work)

    def start(self, folder: Path) -> Job:
        """Submit the task of a folder to Ray."""
        return _RayJob(self._ray, self._work.remote(str(folder), self._environment))


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


class _RayJob:
    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference
        self.why = ""

    def poll(self) -> int | None:
        """Return the exit code, or None while it waits or runs."""
        ended, _ = self._ray.wait([self._reference], timeout=0)
        return self._code() if ended else None

    def cancel(self) -> None:
        """Cancel it. The process of the task exits with Ray's worker, which holds its standard input."""
        self._ray.cancel(self._reference, force=True)

    def wait(self) -> None:
        """Wait until Ray's worker has ended."""
        self._code()

    def _code(self) -> int:
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.RayError as error:
            self.why = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return _LOST


def _work(folder: str, environment: dict[str, str]) -> int:
    """Run a task on the machine that Ray has chosen and return its exit code."""
    return LocalProcess(Path(folder), environment).process.wait()
