"""Measure what a chunk of episodes costs on a Ray cluster beside playing it, for docs/scaling.md.

    python benchmarks/speed/cluster.py [--chunks 400]

On the CPUs of this machine, on which nothing else should run. The command that was started submits the
chunks and writes their records; its processor time per chunk says how many workers it can feed.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from ragen_bench.config.agents import Remote, make_policies
from ragen_bench.config.suites import SamplingSettings, Suite, load_suite
from ragen_bench.evaluation.ray_cluster import RayCluster
from ragen_bench.evaluation.runner import play_chunk

from ragen_agents.rollout import Episode, EpisodeKey

LEVELS = 32
"""Of a chunk of a control."""


def _nothing() -> None:
    """Return at once."""


def _returned(
    _agent: str,
    _keys: list[EpisodeKey],
    _suite: Suite,
    _sampling: SamplingSettings,
    lines: list[str],
) -> list[Episode]:
    """Take what a chunk takes, and return what it returns, without playing."""
    return _decoded(tuple(lines))


def _decoded(lines: tuple[str, ...]) -> list[Episode]:
    return [Episode.model_validate_json(line) for line in lines]


def measured(
    cluster: RayCluster, function: Callable[..., Any], arguments: tuple[Any, ...], count: int
) -> dict[str, float]:
    """Return milliseconds of a call: on the clock, and of this process's processor."""
    began, worked = time.perf_counter(), time.process_time()
    for _ in cluster.map(function, repeat(arguments, count)):
        pass
    wall, busy = time.perf_counter() - began, time.process_time() - worked
    return {"wall_ms": 1e3 * wall / count, "driver_ms": 1e3 * busy / count}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", type=int, default=400)
    count = parser.parse_args(arguments).chunks
    suite = load_suite("core")
    keys = [EpisodeKey("oracle", "Sokoban", index, 0) for index in range(LEVELS)]
    policy = make_policies(["oracle"], suite.sampling, Remote())["oracle"]
    play_chunk(policy, keys, suite)
    began = time.perf_counter()
    episodes = play_chunk(policy, keys, suite)
    found: dict[str, Any] = {"play_ms": 1e3 * (time.perf_counter() - began)}
    began = time.perf_counter()
    cluster = RayCluster(1, 0)
    found["connect_s"] = time.perf_counter() - began
    began = time.perf_counter()
    next(cluster.map(_nothing, [()]))
    found["first_call_s"] = time.perf_counter() - began
    measured(cluster, _nothing, (), 8 * cluster.slots)  # every worker has begun
    found |= {"workers": cluster.slots, "empty": measured(cluster, _nothing, (), count)}
    lines = [episode.model_dump_json() for episode in episodes]
    sampling = suite.sampling
    found["records"] = measured(cluster, _returned, ("oracle", keys, suite, sampling, lines), count)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
