"""Peers that need more than a line to be played. A peer that is not installed skips its benchmarks."""

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


def old_sokoban(side: int, boxes: int, picture: bool) -> Any:
    """Return gym-sokoban's env at its start, without a time limit; it continues when solved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sokoban = pytest.importorskip("gym_sokoban.envs.sokoban_env")
    np.random.seed(0)
    random.seed(0)
    env = sokoban.SokobanEnv((side, side), max_steps=1 << 30, num_boxes=boxes)
    if not picture:
        env.render = lambda **_: None
    return env


def old_room(side: int, boxes: int) -> Callable[[], Any]:
    """Return a call that makes a level by gym-sokoban's rules, trying again where it gives up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rooms = pytest.importorskip("gym_sokoban.envs.room_utils")
    np.random.seed(0)
    random.seed(0)
    length = int(1.7 * 2 * side)

    def work() -> Any:
        while True:
            try:
                return rooms.generate_room((side, side), num_steps=length, num_boxes=boxes)
            except (RuntimeError, RuntimeWarning):
                continue

    return work


def _jumanji(count: int) -> tuple[Any, Any, Any, Any]:
    """Return jax, its step over ``count`` boards of 10x10 with 4 boxes, and the first state."""
    jax = pytest.importorskip("jax")
    games = pytest.importorskip("jumanji.environments.routing.sokoban")
    generator = pytest.importorskip("jumanji.environments.routing.sokoban.generator")
    wrappers = pytest.importorskip("jumanji.wrappers")
    env = wrappers.VmapAutoResetWrapper(games.Sokoban(generator=generator.ToyGenerator()))
    keys = jax.random.split(jax.random.PRNGKey(0), count)
    state, _ = jax.jit(env.reset)(keys)
    return jax, env.step, state, keys


def jumanji_step(count: int, supply: Iterator[NDArray[np.int64]]) -> Callable[[], None]:
    """Return a call that does one step of ``count`` boards."""
    jax, step, state, _ = _jumanji(count)
    compiled = jax.jit(step)

    def work() -> None:
        nonlocal state
        state, seen = compiled(state, next(supply).astype(np.int32))
        jax.block_until_ready(seen)

    return work


def jumanji_scan(count: int, length: int) -> Callable[[], None]:
    """Return a call that does ``length`` steps of ``count`` boards inside one compiled loop."""
    jax, step, state, _ = _jumanji(count)
    rng = np.random.default_rng(0)
    actions = jax.numpy.asarray(rng.integers(4, size=(length, count)), dtype=jax.numpy.int32)

    def advance(state: Any, chosen: Any) -> Any:
        state, seen = step(state, chosen)
        return state, (seen.observation.grid, seen.reward)

    compiled = jax.jit(lambda state: jax.lax.scan(advance, state, actions))

    def work() -> None:
        nonlocal state
        state, seen = compiled(state)
        jax.block_until_ready(seen)

    return work
