"""Chunks of episodes on a Ray cluster, whose machines see the models under the same paths."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from ragen_agents.policies import Policy
from ragen_agents.policies.python_agent import is_python_agent
from ragen_agents.rollout import Episode, EpisodeKey
from ragen_bench.config.agents import OPENAI, Remote, make_policies, weights_of
from ragen_bench.config.extensions import import_from_environment
from ragen_bench.config.suites import SamplingSettings, Suite
from ragen_bench.evaluation.ray_cluster import RayCluster
from ragen_bench.evaluation.runner import Player, play_chunk
from ragen_envs.game.errors import RagenError


class RayPlayer:
    """Plays the chunks of one agent on a cluster.

    A chunk is a task: it can be played anywhere, and again after its machine was lost, with the same
    episodes. The agent is loaded on the cluster at once, so that a model that is missing there is an
    error before anything is played.

    Args:
        cluster: Where.
        agent: A control, or a local model.
        weights: Hash of the model's files here, or None.
        sampling: Of the replies.

    Raises:
        RagenError: The agent cannot be loaded there, or has other weights.
    """

    def __init__(
        self, cluster: RayCluster, agent: str, weights: str | None, sampling: SamplingSettings
    ) -> None:
        self._cluster = cluster
        self._agent = (agent, weights, sampling)
        self.batch_size: int = cluster.call(_batch_size, *self._agent)

    def play_chunks(
        self, chunks: Iterable[Sequence[EpisodeKey]], suite: Suite
    ) -> Iterator[list[Episode]]:
        """Yield the episodes of each chunk, in their order."""
        calls = ((*self._agent, list(chunk), suite) for chunk in chunks)
        return self._cluster.map(_play, calls)


def players_on(
    cluster: RayCluster,
    agents: Mapping[str, str | None],
    sampling: SamplingSettings,
    remote: Remote,
) -> dict[str, Player]:
    """Return the players of agents: on a cluster where they can be loaded anywhere, else in this process.

    Models behind endpoints and Python agents are asked from here.

    Args:
        cluster: Where.
        agents: Their names and the hashes of their weights.
        sampling: Of the replies.
        remote: How endpoints are queried.

    Raises:
        RagenError: An agent cannot be loaded.
    """
    here = [name for name in agents if name.startswith(OPENAI) or is_python_agent(name)]
    found: dict[str, Player] = {**make_policies(here, sampling, remote)}
    for name, weights in agents.items():
        if name not in here:
            found[name] = RayPlayer(cluster, name, weights, sampling)
    return found


@lru_cache(maxsize=1)
def _policy(agent: str, weights: str | None, sampling: SamplingSettings) -> Policy:
    """Load an agent; a process that plays several of its chunks loads it once."""
    import_from_environment()
    if weights is not None and weights_of(agent) != weights:
        raise RagenError(
            f"the files of '{agent}' differ from those of the machine that began the run"
        )
    return cast("Policy", make_policies([agent], sampling, Remote())[agent])


def _batch_size(agent: str, weights: str | None, sampling: SamplingSettings) -> int:
    return _policy(agent, weights, sampling).batch_size


def _play(
    agent: str,
    weights: str | None,
    sampling: SamplingSettings,
    chunk: list[EpisodeKey],
    suite: Suite,
) -> list[Episode]:
    return play_chunk(_policy(agent, weights, sampling), chunk, suite)
