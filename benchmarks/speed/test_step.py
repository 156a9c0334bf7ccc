"""Steps: one env, vectors of all sizes, vectors with text."""

# ruff: noqa: D103

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from measuring import (
    BOUND,
    ENVPOOL,
    GYM_SOKOBAN,
    GYMNASIUM,
    JUMANJI,
    LAKE,
    SIZES,
    batches,
    measure,
)
from numpy.typing import NDArray
from peers import jumanji_scan, jumanji_step, old_sokoban

ONE, MANY, TEXT = "One env", "Many envs", "Many envs, with text"
FOREVER: dict[str, Any] = {"max_episode_steps": 1 << 30}
LARGE: dict[str, Any] = {"size": 10, "boxes": 4, "search_depth": 10}
"""Boards of jumanji's size, searched so little that they are cheap to draw."""
PERIOD = 100
"""Steps until the time limit begins every env anew, all at once where few end before."""
STEPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "FrozenLake 4x4, one map": ("ragen/FrozenLake-v0", {"level": LAKE}),
    "FrozenLake 4x4, new maps": ("ragen/FrozenLake-v0", {}),
    "Sokoban 6x6/1, new levels": ("ragen/Sokoban-v0", {}),
    "Sokoban 10x10/4, endless": ("ragen/Sokoban-v0", {**LARGE, **FOREVER}),
    "Bandit": ("ragen/Bandit-v0", {}),
}
LAKE_ROW, SOKOBAN_ROW = "FrozenLake 4x4, one map", "Sokoban 10x10/4, endless"
IN_PLACE = ", copy=False"
CORNER = ["######", "#P___#", "#__X_#", "#__O_#", "#____#", "######"]
SINGLE = {
    LAKE_ROW: ("ragen/FrozenLake-v0", {"level": LAKE}),
    "Sokoban 6x6/1, one level": ("ragen/Sokoban-v0", {"level": CORNER, **FOREVER}),
    "Bandit, episode": ("ragen/Bandit-v0", {}),
}


def many(row: str, count: int) -> str:
    return f"{row}, {count:,} env{'s' * (count > 1)}"


def steps(env: Any, actions: list[int]) -> Callable[[], None]:
    """Return a call that plays the actions, with resets."""
    step, reset = env.step, env.reset

    def work() -> None:
        for action in actions:
            _, _, terminated, truncated, _ = step(action)
            if terminated or truncated:
                reset()

    return work


def period(envs: Any, supply: Iterator[NDArray[np.int64]]) -> Callable[[], None]:
    """Return a call that plays ``PERIOD`` steps."""

    def work() -> None:
        for _ in range(PERIOD):
            envs.step(next(supply))

    return work


@pytest.mark.parametrize("row", SINGLE)
def test_one_env(benchmark: Any, row: str) -> None:
    env_id, kwargs = SINGLE[row]
    env = gym.make(env_id, **kwargs)
    env.reset(seed=0)
    actions = next(batches(int(env.action_space.n), 1 << 14)).tolist()  # type: ignore[attr-defined]
    measure(benchmark, steps(env, actions), ONE, row, items=len(actions))


def test_one_env_of_gymnasium(benchmark: Any) -> None:
    env = gym.make("FrozenLake-v1", desc=LAKE)
    env.reset(seed=0)
    actions = next(batches(4, 1 << 13)).tolist()
    measure(benchmark, steps(env, actions), ONE, LAKE_ROW, GYMNASIUM, len(actions))


@pytest.mark.parametrize("picture", [False, True], ids=["stubbed", "tiny"])
def test_one_env_of_gym_sokoban(benchmark: Any, picture: bool) -> None:
    env = old_sokoban(6, 1, picture)
    actions = (1 + next(batches(4, 1 << 10))).tolist()

    def work() -> None:
        for action in actions:
            env.step(action, "tiny_rgb_array")

    note = "draws a tiny picture each step" if picture else "its picture stubbed out"
    row = "Sokoban 6x6/1, one level"
    measure(benchmark, work, ONE, row, GYM_SOKOBAN, len(actions), note=note)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("row", STEPPED)
def test_many_envs(benchmark: Any, row: str, count: int) -> None:
    env_id, kwargs = STEPPED[row]
    envs: Any = gym.make_vec(env_id, num_envs=count, **kwargs)
    envs.reset(seed=0)
    work = period(envs, batches(int(envs.single_action_space.n), count))
    measure(benchmark, work, MANY, many(row, count), items=count * PERIOD)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("row", [LAKE_ROW, SOKOBAN_ROW])
def test_bound(benchmark: Any, row: str, count: int) -> None:
    """Copy as many bytes as a step must read and write at least, in arrays of that size."""
    env_id, kwargs = STEPPED[row]
    envs: Any = gym.make_vec(env_id, num_envs=count, **kwargs)
    cells = int(np.prod(envs.single_observation_space.shape))
    state = 2 * 8 * len(envs._state)
    arguments_and_results = 8 + 8 + 5
    moved = 2 * cells + state + arguments_and_results
    source = np.zeros(count * moved // 2, np.uint8)
    target = np.zeros_like(source)
    note = f"{moved} bytes a step"
    work = lambda: np.copyto(target, source)  # noqa: E731
    measure(benchmark, work, MANY, many(row, count), BOUND, count, note=note)


@pytest.mark.parametrize("count", SIZES[1:3])
@pytest.mark.parametrize("row", [LAKE_ROW, SOKOBAN_ROW])
def test_many_envs_without_copies(benchmark: Any, row: str, count: int) -> None:
    env_id, kwargs = STEPPED[row]
    envs: Any = gym.make_vec(env_id, num_envs=count, copy=False, **kwargs)
    envs.reset(seed=0)
    work = period(envs, batches(4, count))
    name = many(f"{row}{IN_PLACE}", count)
    measure(benchmark, work, MANY, name, items=count * PERIOD)


@pytest.mark.parametrize(("copy", "count"), [*((True, n) for n in SIZES[:3]), (False, 64), (False, 1024)])
def test_many_envs_of_gymnasium(benchmark: Any, copy: bool, count: int) -> None:
    arguments = {"copy": copy}
    envs: Any = gym.make_vec("FrozenLake-v1", count, vector_kwargs=arguments, desc=LAKE)
    envs.reset(seed=0)
    supply = batches(4, count)
    row = many(f"{LAKE_ROW}{'' if copy else IN_PLACE}", count)
    measure(benchmark, lambda: envs.step(next(supply)), MANY, row, GYMNASIUM, count)


@pytest.mark.parametrize(("note", "count"), [*(("", n) for n in SIZES), (IN_PLACE, 64), (IN_PLACE, 1024)])
def test_many_envs_of_envpool(benchmark: Any, note: str, count: int) -> None:
    """Both rows show the same work: envpool has no such option."""
    envpool = pytest.importorskip("envpool")
    envs = envpool.make_gymnasium("FrozenLake-v1", num_envs=count, num_threads=1)
    envs.reset()
    supply = batches(4, count)
    row = many(f"{LAKE_ROW}{note}", count)
    measure(benchmark, lambda: envs.step(next(supply)), MANY, row, ENVPOOL, count)


@pytest.mark.parametrize("count", SIZES)
def test_many_envs_of_jumanji(benchmark: Any, count: int) -> None:
    work = jumanji_step(count, batches(4, count))
    note = "jit and vmap, a call a step"
    measure(benchmark, work, MANY, many(SOKOBAN_ROW, count), JUMANJI, count, note=note)


@pytest.mark.parametrize("note", ["", IN_PLACE])
def test_many_envs_of_jumanji_in_a_scan(benchmark: Any, note: str) -> None:
    count, length = 1024, 50
    work = jumanji_scan(count, length)
    row = many(f"{SOKOBAN_ROW}{note}", count)
    what = f"jit, vmap and a scan of {length} steps"
    measure(benchmark, work, MANY, row, JUMANJI, count * length, note=what)


@pytest.mark.parametrize("size", [(6, 1), (10, 4)], ids=["6x6", "10x10"])
@pytest.mark.parametrize("count", SIZES[1:])
def test_many_envs_with_text(benchmark: Any, size: tuple[int, int], count: int) -> None:
    side, boxes = size
    law = LARGE if side == 10 else {}
    envs: Any = gym.make_vec("ragen/Sokoban-v0", num_envs=count, render_mode="ansi", **law, **FOREVER)
    envs.reset(seed=0)
    supply = batches(4, count)

    def work() -> None:
        envs.step(next(supply))
        envs.render()

    row = many(f"Sokoban {side}x{side}/{boxes}", count)
    measure(benchmark, work, TEXT, row, items=count)
