"""The tasks of a sweep on a Ray cluster, whose machines see the sweep's folder under the same path."""

from pathlib import Path
from typing import Any

from ragen_bench.config.task_environment import task_environment
from ragen_bench.evaluation.ray_cluster import RayCluster
from ragen_bench.sweeps.jobs import Job, LocalProcess

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
        cluster = RayCluster(threads, gpus)
        self.slots = cluster.slots
        self._ray = cluster.ray
        self._environment = task_environment(threads, hides_gpus=not gpus)
        self._work = cluster.remote(_work, max_retries=0)

    def start(self, folder: Path) -> Job:
        """Submit the task of a folder to Ray."""
        return _RayJob(self._ray, self._work.remote(str(folder), self._environment))


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
