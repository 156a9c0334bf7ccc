"""Rollouts: many steps in one call."""

# ruff: noqa: D103

import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from goals import CORES, ONE_THREAD
from measuring import JAX, LAKE, OURS, SIZES, measure
from peers import jax_lake_scan
from test_step import IN_PLACE, LAKE_ROW, MANY, SOKOBAN_ROW, STEPPED, many

LENGTH = 256
"""Steps of a rollout."""


@pytest.mark.parametrize("count", SIZES[1:])
@pytest.mark.parametrize("row", [LAKE_ROW, SOKOBAN_ROW])
def test_rollouts(benchmark: Any, row: str, count: int) -> None:
    env_id, kwargs = STEPPED[row]
    envs: Any = gym.make_vec(env_id, num_envs=count, **kwargs)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(4, size=(LENGTH, count))
    name = many(f"{row}, rollouts", count)
    measure(benchmark, lambda: envs.rollout(actions), MANY, name, items=actions.size)


@pytest.mark.benchmark(timer=time.perf_counter)
@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize(("who", "threads"), [(OURS, CORES), (ONE_THREAD, 1)])
def test_rollouts_on_all_cores(benchmark: Any, who: str, threads: int) -> None:
    """By the clock: the processor's time of all threads does not fall when they share the work."""
    env_id, kwargs = STEPPED[SOKOBAN_ROW]
    count = 16_384
    # Fresh arrays of this size would be given to all threads page by page.
    envs: Any = gym.make_vec(env_id, num_envs=count, copy=False, **kwargs)
    envs.reset(seed=0)
    # Long calls: it takes milliseconds until the system has moved a thread to an idle core.
    actions = np.random.default_rng(0).integers(4, size=(512, count))
    name = many(f"{SOKOBAN_ROW}, rollouts on all cores{IN_PLACE}", count)
    note = f"{threads} threads" if threads > 1 else ""
    work = lambda: envs.rollout(actions, threads)  # noqa: E731
    measure(benchmark, work, MANY, name, who, actions.size, note=note)


def test_rollouts_of_a_table_in_jax(benchmark: Any) -> None:
    count, length = 1024, LENGTH
    work = jax_lake_scan(LAKE, count, length)
    name = many(f"{LAKE_ROW}, rollouts", count)
    note = f"jit and a scan of {length} steps"
    measure(benchmark, work, MANY, name, JAX, count * length, note=note)
