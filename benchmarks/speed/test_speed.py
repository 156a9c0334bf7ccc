"""Speed of the games and of their peers, measured in one run. Needs pytest-benchmark.

    pytest benchmarks/speed --benchmark-group-by=group

Each group holds one kind of work, ours and the peers'. ``extra_info["items"]`` says how many steps or
levels one call does, so that time / items compares across sizes. Actions are drawn beforehand, at
least 2^16 of them, or the branch predictor learns them.
"""

# ruff: noqa: D103

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import ragen_envs
from ragen_envs.conversation import format_reply
from ragen_envs.frozen_lake import generator as lake_generator
from ragen_envs.seeding import new_stream
from ragen_envs.sokoban import generator as sokoban_generator
from ragen_envs.sokoban import solve, solve_batch
from ragen_envs.splits import TRAIN

SIZES = (1, 64, 1024, 16384)
LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]
STEPPED = {
    "FrozenLake, one map": ("ragen/FrozenLake-v0", {"level": LAKE}),
    "FrozenLake, fresh maps": ("ragen/FrozenLake-v0", {}),
    "Sokoban 6x6/1": ("ragen/Sokoban-v0", {}),
    "Sokoban 10x10/4": ("ragen/Sokoban-v0", {"size": 10, "boxes": 4}),
    "Bandit": ("ragen/Bandit-v0", {}),
    "Gymnasium FrozenLake": ("FrozenLake-v1", {}),
}
SHAPES = {"6x6/1": (6, 6, 1), "8x8/2": (8, 8, 2), "10x10/4": (10, 10, 4)}

assert ragen_envs.GAMES


def batches(actions: int, count: int) -> Iterator[NDArray[np.int64]]:
    """Return an endless supply of action arrays, drawn beforehand."""
    rows = max(4, (1 << 16) // count)
    return cycle(list(np.random.default_rng(0).integers(actions, size=(rows, count))))


def measure(benchmark: Any, work: Callable[[], Any], items: int, group: str) -> None:
    """Benchmark a call that does ``items`` steps, levels, boards or turns."""
    benchmark.group = group
    benchmark.extra_info["items"] = items
    work()
    benchmark(work)


def chunk_of_steps(env: Any, steps: int, actions: list[int]) -> None:
    """Step a single env, with resets."""
    step, reset = env.step, env.reset
    for action in actions[:steps]:
        _, _, terminated, truncated, _ = step(action)
        if terminated or truncated:
            reset()


@pytest.mark.parametrize("name", STEPPED)
def test_single_step(benchmark: Any, name: str) -> None:
    env_id, kwargs = STEPPED[name]
    env = gym.make(env_id, **kwargs)
    env.reset(seed=0)
    count = int(env.action_space.n)  # type: ignore[attr-defined]
    actions = next(batches(count, 1 << 16)).tolist()
    measure(benchmark, lambda: chunk_of_steps(env, 1000, actions), 1000, "single step")


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("name", STEPPED)
def test_vector_step(benchmark: Any, name: str, count: int) -> None:
    env_id, kwargs = STEPPED[name]
    if not env_id.startswith("ragen/") and count > 1024:
        pytest.skip("a Python loop over 16384 envs tells nothing new")
    envs = gym.make_vec(env_id, num_envs=count, **kwargs)
    envs.reset(seed=0)
    supply = batches(int(envs.single_action_space.n), count)  # type: ignore[attr-defined]
    measure(benchmark, lambda: envs.step(next(supply)), count, f"vector step, {count} envs")


@pytest.mark.parametrize("name", ["Sokoban 6x6/1", "Sokoban 10x10/4"])
def test_vector_step_without_copies(benchmark: Any, name: str) -> None:
    env_id, kwargs = STEPPED[name]
    settings = {**kwargs, "copy_observations": False, "max_episode_steps": 1 << 30}
    envs = gym.make_vec(env_id, num_envs=1024, **settings)
    envs.reset(seed=0)
    supply = batches(4, 1024)
    measure(benchmark, lambda: envs.step(next(supply)), 1024, "vector step, 1024 envs, views")


@pytest.mark.parametrize("shape", SHAPES)
def test_sokoban_level(benchmark: Any, shape: str) -> None:
    height, width, boxes = SHAPES[shape]
    streams = [new_stream(TRAIN, "speed", seed) for seed in range(50)]
    supply = cycle(streams)

    def work() -> None:
        sokoban_generator.generate(height, width, boxes, next(supply), TRAIN)

    measure(benchmark, work, 1, f"level, Sokoban {shape}")


@pytest.mark.parametrize("shape", SHAPES)
def test_sokoban_level_compiled(benchmark: Any, shape: str) -> None:
    height, width, boxes = SHAPES[shape]
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=256, size=(height, width), boxes=boxes)
    envs.reset(seed=0)
    measure(benchmark, envs.reset, 256, f"level, Sokoban {shape}")


def test_lake_level(benchmark: Any) -> None:
    supply = cycle([new_stream(TRAIN, "speed", seed) for seed in range(500)])

    def work() -> None:
        lake_generator.generate(4, 4, 0.8, next(supply), TRAIN)

    measure(benchmark, work, 1, "level, FrozenLake 4x4")


def test_lake_level_compiled(benchmark: Any) -> None:
    envs = gym.make_vec("ragen/FrozenLake-v0", num_envs=1024)
    envs.reset(seed=0)
    measure(benchmark, envs.reset, 1024, "level, FrozenLake 4x4")


@pytest.mark.parametrize("shape", ["6x6/1", "8x8/2"])
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_solve(benchmark: Any, shape: str, batch: bool) -> None:
    height, width, boxes = SHAPES[shape]
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=64, size=(height, width), boxes=boxes)
    boards, _ = envs.reset(seed=0)

    def work() -> None:
        if batch:
            solve_batch(boards)
        else:
            for board in boards:
                solve(board)

    measure(benchmark, work, 64, f"solve, Sokoban {shape}")


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_text(benchmark: Any, game: str) -> None:
    env = gym.make(f"ragen/{game}-v0", render_mode="ansi")
    env.reset(seed=0)
    measure(benchmark, env.render, 1, "text of a state")


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_turn_of_conversation(benchmark: Any, game: str) -> None:
    env = gym.make(f"ragen/{game}Text-v0")
    env.reset(seed=0)
    reply = format_reply([env.get_wrapper_attr("names")[0]], "I look around.")

    def work() -> None:
        _, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            env.reset()

    measure(benchmark, work, 1, "turn of conversation, with resets")
