"""Maps that FrozenLake generates."""

import time

import numpy as np
import pytest
from playing import reachable
from scipy import stats

from ragen_envs.errors import GenerationError
from ragen_envs.games.frozen_lake import FrozenLakeEnv, dynamics, generator
from ragen_envs.levels.seeding import new_stream


@pytest.mark.parametrize("size", [2, 4, (3, 6), 8, 16])
def test_generated_maps(size):
    env = FrozenLakeEnv(size=size, p=0.7)
    for seed in range(25):
        board, _ = env.reset(seed=seed)
        assert (board == 2).sum() == (board == 3).sum() == 1
        assert set(np.unique(board)) <= {0, 1, 2, 3}
        assert reachable(board)


@pytest.mark.parametrize("p", [0.25, 0.8, 1.0])
def test_raw_maps_freeze_with_p(p):
    tiles, stream = bytearray(25), new_stream("train", "raw", 0)
    holes, starts, goals, count = 0, np.zeros(25, int), np.zeros(25, int), 2000
    for _ in range(count):
        start, stream = generator.attempt(tiles, 5, 5, p, stream)
        holes += tiles.count(dynamics.HOLE)
        starts[start] += 1
        goals[tiles.index(dynamics.GOAL)] += 1
        assert tiles[start] == dynamics.FROZEN
    expected, spread = 23 * count * (1 - p), np.sqrt(23 * count * p * (1 - p))
    assert abs(holes - expected) <= 4 * spread
    assert stats.chisquare(starts).pvalue > 1e-4
    assert stats.chisquare(goals).pvalue > 1e-4


@pytest.mark.slow
def test_generated_maps_are_random_maps_with_a_path():
    rng = np.random.default_rng(0)
    wanted = np.zeros(16, int)
    for _ in range(2000):
        board = np.where(rng.random((4, 4)) < 0.8, 0, 1)
        start, goal = rng.choice(16, 2, replace=False)
        board.flat[start], board.flat[goal] = 3, 2
        if reachable(board):
            wanted[(board == 1).sum()] += 1
    env = FrozenLakeEnv()
    env.reset(seed=0)
    found = np.zeros(16, int)
    for split, draws in (
        ("train", 485),
        ("validation", 100),
        ("test", 215),
    ):  # as large as they are
        for _ in range(draws):
            found[(env.reset(options={"split": split})[0] == 1).sum()] += 1
    table = np.array([[counts[0], counts[1], counts[2], counts[3], counts[4], counts[5:].sum()]
                      for counts in (wanted, found)])  # fmt: skip
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_impossible_maps_end_soon():
    """Without ice, all 2x2 maps with a path are one map up to symmetry: two splits have none."""
    env = FrozenLakeEnv(size=2, p=0.0)
    began, failures = time.process_time(), []
    for split in ("train", "validation", "test"):
        try:
            board, _ = env.reset(seed=0, options={"split": split})
        except GenerationError as error:
            failures.append(str(error))
        else:
            assert reachable(board)
    assert len(failures) == 2
    assert "2x2" in failures[0]
    assert "p=0.0" in failures[0]
    assert "belongs to the split; use a larger size" in failures[0]
    assert time.process_time() - began < 10
