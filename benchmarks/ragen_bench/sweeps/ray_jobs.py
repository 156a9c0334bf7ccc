"""The tasks of a sweep on a Ray cluster, whose machines see the sweep's folder under the same path."""

import logging
from pathlib import Path
from typing import Any

from ragen_bench.sweeps.jobs import Job, Leashed, task_environment
from ragen_envs.errors import RagenError

_LOST = 1
"""Exit code of a task whose machine or process was lost."""


class OnRay:
    """Lets Ray place tasks; each waits until a machine has what it declares.

    The cluster is the one that ``RAY_ADDRESS`` names, or one of this machine alone that ends with this
    process. Ray's own retries are off: a task that is lost is tried again by the pool.

    Args:
        threads: Processors that each task declares, and threads that it has, >= 1.
        gpus: GPUs that each task declares, >= 0.

    Raises:
        RagenError: Ray is not installed, or no machine of the cluster could ever do a task.
    """

    def __init__(self, threads: int, gpus: float) -> None:
        try:
            import ray
        except ImportError:
            raise RagenError(
                "--on ray needs ray; install it with pip install 'ragen-suite[ray]'"
            ) from None
        self._ray: Any = ray
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
        self._check(threads, gpus)
        self._environment = task_environment(threads)
        self._work = ray.remote(max_retries=0, num_cpus=threads, num_gpus=gpus)(_work)

    def start(self, folder: Path) -> Job:
        """Hand the task of a folder to Ray."""
        return _RayJob(self._ray, self._work.remote(str(folder), self._environment))

    def _check(self, threads: int, gpus: float) -> None:
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(m.get("CPU", 0) >= threads and m.get("GPU", 0) >= gpus for m in machines):
            most = {name: max(m.get(name, 0) for m in machines) for name in ("CPU", "GPU")}
            raise RagenError(
                f"a task wants {threads} processors and {gpus:g} GPUs of one machine, but the cluster's "
                f"machines have at most {most['CPU']:g} and {most['GPU']:g}; see --gpus"
            )


class _RayJob:
    def __init__(self, ray: Any, reference: Any) -> None:
        self._ray, self._reference = ray, reference

    def poll(self) -> int | None:
        """Return the exit code, or None while it waits or runs."""
        ended, _ = self._ray.wait([self._reference], timeout=0)
        return self._code() if ended else None

    def stop(self) -> None:
        """Cancel it. The process of the task ends with that of Ray's worker, which holds its leash."""
        self._ray.cancel(self._reference, force=True)
        self._code()

    def _code(self) -> int:
        try:
            return int(self._ray.get(self._reference))
        except self._ray.exceptions.RayError:
            return _LOST


def _work(folder: str, environment: dict[str, str]) -> int:
    """Do a task on the machine that Ray has chosen and return its exit code."""
    return Leashed(Path(folder), environment).process.wait()
