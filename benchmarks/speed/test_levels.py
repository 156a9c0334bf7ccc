"""New levels and shortest solutions."""

# ruff: noqa: D103

from itertools import cycle
from typing import Any

import gymnasium as gym
import pytest
from measuring import GYM_SOKOBAN, LAWS, measure
from peers import old_room

from ragen_envs.games.frozen_lake import generator as lake_generator
from ragen_envs.games.sokoban import solve
from ragen_envs.levels.seeding import new_stream
from ragen_envs.levels.splits import TRAIN

ALONE = "single env"
SOLVED = {"6x6/1": (6, 1), "6x6/2": (6, 2), "8x8/2": (8, 2), "10x10/4": (10, 4)}
LEVEL, SOLVE = "New levels", "Shortest solutions"
STREAMS = [new_stream(TRAIN, "speed", seed) for seed in range(1000)]
PEER_ROUNDS = {"6x6/1": 1000, "8x8/2": 100, "10x10/4": 20}


def is_slow(law: str) -> bool:
    return law == "10x10/4"


@pytest.mark.parametrize("law", LAWS)
def test_levels_of_a_vector(benchmark: Any, law: str) -> None:
    count = 32 if is_slow(law) else 256
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=count, **LAWS[law])
    envs.reset(seed=0)
    row, note = f"Sokoban {law}", f"{count} at once in a vector"
    measure(benchmark, envs.reset, LEVEL, row, items=count, rounds=5, note=note)


@pytest.mark.parametrize("law", LAWS)
def test_level_compiled(benchmark: Any, law: str) -> None:
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=1, **LAWS[law])
    envs.reset(seed=0)
    row, rounds = f"Sokoban {law}", 200 if is_slow(law) else 1000
    note = "one by one in a vector of 1"
    measure(benchmark, envs.reset, LEVEL, row, rounds=rounds, note=note)


@pytest.mark.parametrize("law", PEER_ROUNDS)
def test_level_of_gym_sokoban(benchmark: Any, law: str) -> None:
    side, boxes = LAWS[law]["size"], LAWS[law]["boxes"]
    row, rounds = f"Sokoban {law}", PEER_ROUNDS[law]
    note = f"{rounds} levels only" if rounds < 100 else ""
    measure(benchmark, old_room(side, boxes), LEVEL, row, GYM_SOKOBAN, rounds=rounds, note=note)


@pytest.mark.parametrize("law", LAWS)
def test_level_of_one_env(benchmark: Any, law: str) -> None:
    env = gym.make("ragen/Sokoban-v0", **LAWS[law])
    env.reset(seed=0)
    row, rounds = f"Sokoban {law}", 100 if is_slow(law) else 300
    measure(benchmark, env.reset, LEVEL, row, rounds=rounds, note=ALONE)


def test_lakes_of_a_vector(benchmark: Any) -> None:
    envs = gym.make_vec("ragen/FrozenLake-v0", num_envs=1024)
    envs.reset(seed=0)
    row, note = "FrozenLake 4x4", "1,024 at once in a vector"
    measure(benchmark, envs.reset, LEVEL, row, items=1024, rounds=20, note=note)


def test_lake_in_plain_python(benchmark: Any) -> None:
    supply = cycle(STREAMS)

    def work() -> None:
        lake_generator.generate(4, 4, 0.8, next(supply), TRAIN)

    measure(benchmark, work, LEVEL, "FrozenLake 4x4", rounds=1000, note=ALONE)


@pytest.mark.parametrize("shape", SOLVED)
def test_solve(benchmark: Any, shape: str) -> None:
    side, boxes = SOLVED[shape]
    count = 8 if boxes == 4 else 128
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=count, size=side, boxes=boxes)
    boards, _ = envs.reset(seed=0)

    def work() -> None:
        for board in boards:
            solve(board)

    measure(benchmark, work, SOLVE, f"Sokoban {shape}", items=count, note="one by one")
