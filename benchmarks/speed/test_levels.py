"""New levels, shortest solutions, and a state as text."""

# ruff: noqa: D103

from itertools import cycle
from typing import Any

import gymnasium as gym
import pytest
from measuring import GYM_SOKOBAN, SHAPES, measure
from peers import old_room

from ragen_envs.frozen_lake import generator as lake_generator
from ragen_envs.seeding import new_stream
from ragen_envs.sokoban import generator as sokoban_generator
from ragen_envs.sokoban import solve, solve_batch
from ragen_envs.splits import TRAIN

PLAIN = "single env, plain Python"
SOLVED = {"6x6/1": (6, 1), "6x6/2": (6, 2), "8x8/2": (8, 2), "10x10/4": (10, 4)}
LEVEL, SOLVE, TEXT = "New levels", "Shortest solutions", "A state as text"
STREAMS = [new_stream(TRAIN, "speed", seed) for seed in range(1000)]
ROUNDS = {"6x6/1": 1000, "8x8/2": 300, "10x10/4": 200}
PLAIN_ROUNDS = {"6x6/1": 300, "8x8/2": 100, "10x10/4": 10}
PEER_ROUNDS = {"6x6/1": 300, "8x8/2": 40, "10x10/4": 5}


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_of_a_vector(benchmark: Any, shape: str) -> None:
    height, width, boxes = SHAPES[shape]
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=256, size=(height, width), boxes=boxes)
    envs.reset(seed=0)
    row, note = f"Sokoban {shape}", "256 at once in a vector"
    measure(benchmark, envs.reset, LEVEL, row, items=256, rounds=5, note=note)


@pytest.mark.parametrize("shape", SHAPES)
def test_level_compiled(benchmark: Any, shape: str) -> None:
    height, width, boxes = SHAPES[shape]
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=1, size=(height, width), boxes=boxes)
    envs.reset(seed=0)
    note = "one by one in a vector of 1"
    measure(benchmark, envs.reset, LEVEL, f"Sokoban {shape}", rounds=ROUNDS[shape], note=note)


@pytest.mark.parametrize("shape", SHAPES)
def test_level_of_gym_sokoban(benchmark: Any, shape: str) -> None:
    side, _, boxes = SHAPES[shape]
    row, rounds = f"Sokoban {shape}", PEER_ROUNDS[shape]
    note = f"{rounds} levels only" if rounds < 100 else ""
    measure(benchmark, old_room(side, boxes), LEVEL, row, GYM_SOKOBAN, rounds=rounds, note=note)


@pytest.mark.parametrize("shape", SHAPES)
def test_level_in_plain_python(benchmark: Any, shape: str) -> None:
    height, width, boxes = SHAPES[shape]
    supply = cycle(STREAMS)

    def work() -> None:
        sokoban_generator.generate(height, width, boxes, next(supply), TRAIN)

    row, rounds = f"Sokoban {shape}", PLAIN_ROUNDS[shape]
    measure(benchmark, work, LEVEL, row, rounds=rounds, note=PLAIN)


def test_lakes_of_a_vector(benchmark: Any) -> None:
    envs = gym.make_vec("ragen/FrozenLake-v0", num_envs=1024)
    envs.reset(seed=0)
    row, note = "FrozenLake 4x4", "1,024 at once in a vector"
    measure(benchmark, envs.reset, LEVEL, row, items=1024, rounds=20, note=note)


def test_lake_in_plain_python(benchmark: Any) -> None:
    supply = cycle(STREAMS)

    def work() -> None:
        lake_generator.generate(4, 4, 0.8, next(supply), TRAIN)

    measure(benchmark, work, LEVEL, "FrozenLake 4x4", rounds=1000, note=PLAIN)


@pytest.mark.parametrize("shape", SOLVED)
@pytest.mark.parametrize("batch", [True, False], ids=["batch", "one"])
def test_solve(benchmark: Any, shape: str, batch: bool) -> None:
    side, boxes = SOLVED[shape]
    count = 8 if boxes == 4 else 128
    envs = gym.make_vec("ragen/Sokoban-v0", num_envs=count, size=side, boxes=boxes)
    boards, _ = envs.reset(seed=0)

    def work() -> None:
        if batch:
            solve_batch(boards)
        else:
            for board in boards:
                solve(board)

    note = f"{count} at once" if batch else "one by one"
    measure(benchmark, work, SOLVE, f"Sokoban {shape}", items=count, note=note)


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake"])
def test_texts(benchmark: Any, game: str) -> None:
    envs = gym.make_vec(f"ragen/{game}-v0", num_envs=1024, render_mode="ansi")
    envs.reset(seed=0)
    measure(benchmark, envs.render, TEXT, game, items=1024, note="1,024 at once")


@pytest.mark.parametrize("game", ["Sokoban", "FrozenLake", "Bandit"])
def test_text(benchmark: Any, game: str) -> None:
    env = gym.make(f"ragen/{game}-v0", render_mode="ansi").unwrapped
    env.reset(seed=0)
    measure(benchmark, env.render, TEXT, game, note="one")
