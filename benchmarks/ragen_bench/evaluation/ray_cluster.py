"""Work on a Ray cluster, whose machines see the folders of runs and models under the same paths."""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from ragen_agents.policies import Policy
from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.rollout import Episode, EpisodeKey
from ragen_bench.config.agents import OPENAI, Remote, make_policies, weights_of
from ragen_bench.config.extensions import import_from_environment, task_environment
from ragen_bench.config.suites import SamplingSettings, Suite
from ragen_bench.evaluation.runner import Player, play_chunk
from ragen_envs.errors import RagenError, first_line, install_hint

_RETRIES: Final = 5
"""Times that Ray repeats a call whose machine or process was lost."""
_AHEAD: Final = 4
"""Calls that are submitted for each that fits, so that a machine that joins has work."""


class RayCluster:
    """The cluster at ``RAY_ADDRESS``, or a local one that ends with this process."""

    def __init__(self, threads: int, gpus: float) -> None:
        if gpus > 1 and not gpus.is_integer():
            raise RagenError(f"--gpus is {gpus:g}, but must be a whole number, or a fraction of one")
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

    def map(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield the result of a pure function for each tuple of arguments, in their order.

        A call whose machine is lost is repeated elsewhere.
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


def check_placement(backend: str, gpus: float | None) -> None:
    """Check the options ``--backend`` and ``--gpus``."""
    if backend not in ("local", "ray"):
        raise RagenError(f"--backend is '{backend}', but must be local or ray")
    if gpus is not None and backend == "local":
        raise RagenError(f"--gpus is {gpus:g}, but is only for --backend ray: tasks request GPUs from Ray")


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
    by_cpu = machine.get("CPU", 0) // threads
    return int(min(by_cpu, machine.get("GPU", 0) // gpus) if gpus else by_cpu)


_LOST: Final = 1
"""Exit code of a task whose machine or process was lost."""


def ray_jobs(
    threads: int, gpus: float, run: Callable[[Path, dict[str, str]], int]
) -> "tuple[int, Callable[[Path], RayJob]]":
    """Return how many tasks fit on Ray at the same time, and what submits a function of a folder as one.

    Each waits until a machine has the resources that it requests. Ray's own retries are off: the pool of a
    sweep retries a task that is lost.
    """
    cluster = RayCluster(threads, gpus)
    environment = task_environment(threads, hides_gpus=not gpus)
    task = cluster.remote(run, max_retries=0)
    return cluster.slots, lambda folder: RayJob(cluster.ray, task.remote(folder, environment))


class RayJob:
    """A submitted task."""

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


class RayPlayer:
    """Plays the chunks of one agent on a cluster.

    A chunk is a task: it can be played anywhere, and again after its machine was lost, with the same
    episodes. The agent, a control or a local model with the hash of its files here, is loaded on the cluster
    at once, so that a model that is missing there is an error before anything is played.
    """

    def __init__(
        self, cluster: RayCluster, agent: str, weights: str | None, sampling: SamplingSettings,
        stop: Sequence[str],
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._agent = (agent, weights, sampling, tuple(stop))
        self.batch_size: int = next(cluster.map(_batch_size, [self._agent]))

    def play_chunks(self, chunks: Iterable[Sequence[EpisodeKey]], suite: Suite) -> Iterator[list[Episode]]:
        """Yield the episodes of each chunk, in their order."""
        calls = ((self._agent, list(chunk), suite) for chunk in chunks)
        return self._cluster.map(_play, calls)


def players_on(
    cluster: RayCluster, agents: Mapping[str, str | None], sampling: SamplingSettings, remote: Remote
) -> dict[str, Player]:
    """Return the players of agents: on a cluster where they can be loaded anywhere, else in this process.

    Models behind endpoints and Python agents are asked from here.
    """
    here = [name for name in agents if name.startswith(OPENAI) or is_python_agent(name)]
    players: dict[str, Player] = {**make_policies(here, sampling, remote)}
    for name, weights in agents.items():
        if name not in here:
            players[name] = RayPlayer(cluster, name, weights, sampling, remote.settings.stop)
    return players


@lru_cache(maxsize=1)
def _policy(agent: str, weights: str | None, sampling: SamplingSettings, stop: tuple[str, ...]) -> Policy:
    """Load an agent; a process that plays several of its chunks loads it once."""
    import_from_environment()
    if weights is not None and weights_of(agent) != weights:
        raise RagenError(f"the files of '{agent}' differ from those of the machine that began the run")
    remote = Remote(EndpointSettings(stop=list(stop)))
    return cast("Policy", make_policies([agent], sampling, remote)[agent])


def _batch_size(*agent: Any) -> int:
    return _policy(*agent).batch_size


def _play(agent: tuple[Any, ...], chunk: list[EpisodeKey], suite: Suite) -> list[Episode]:
    return play_chunk(_policy(*agent), chunk, suite)
