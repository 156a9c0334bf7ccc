"""Exact searches are not repeated, whether they found an answer or gave up."""

import pytest

from ragen_envs.errors import SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.game.search_cache import search_cache
from ragen_envs.games.frozen_lake import FrozenLakeEnv, open_loop
from ragen_envs.games.minesweeper import MinesweeperEnv
from ragen_envs.games.minesweeper import oracle as minesweeper_oracle
from ragen_envs.games.sokoban.dynamics import BOX, PLAYER, TARGET
from ragen_envs.multi_agent.games.sokoban_coop import oracle as coop_oracle


def test_answers_and_refusals_are_remembered():
    asked = []

    @search_cache(maxsize=2)
    def search(number: int) -> int:
        """Search."""
        asked.append(number)
        if number < 0:
            raise SolverLimitError(f"{number} is too small")
        return 2 * number

    for _ in range(3):
        assert search(4) == 8
        with pytest.raises(SolverLimitError, match="-1 is too small"):
            search(-1)
    assert asked == [4, -1]
    assert (search.__name__, search.__doc__) == ("search", "Search.")


def counting(monkeypatch, owner, name):
    """Count the calls of a function."""
    calls, real = [], getattr(owner, name)

    def counted(*args, **kwargs):
        calls.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


def assert_asked_once(calls, ask, message):
    with pytest.raises(SolverLimitError, match=message):
        ask()
    first = len(calls)
    for _ in range(2):
        with pytest.raises(SolverLimitError, match=message):
            ask()
    assert len(calls) == first > 0


def test_minesweeper_gives_up_once(monkeypatch):
    monkeypatch.setattr(minesweeper_oracle, "MAX_STATES", 1)
    env = MinesweeperEnv(level="*...*/..*../...../o..../.....".split("/"))
    env.reset()
    calls = counting(monkeypatch, minesweeper_oracle, "safe_cells")
    assert_asked_once(calls, lambda: env.oracle(Budget(9, 9, 1)), "more than 1 states")


def test_cooperative_sokoban_gives_up_once(monkeypatch):
    board = bytearray(b"".join([b"\0" * 7, b"\0\1\1\1\1\1\0" * 4, b"\0" * 7]))
    board[17], board[25], board[29], board[33] = BOX, TARGET, PLAYER, PLAYER
    calls = counting(monkeypatch, coop_oracle, "play_round")

    def ask():
        coop_oracle.joint_plan(bytes(board), (29, 33), 7, 20, 10)

    assert_asked_once(calls, ask, "max_states is 10")


def test_frozen_lake_gives_up_once(monkeypatch):
    monkeypatch.setattr(open_loop, "MAX_WORK", 10)
    env = FrozenLakeEnv(level=["SFFF", "FFFF", "FFFF", "FFFG"])
    env.reset(seed=0)
    calls = counting(monkeypatch, open_loop.OpenLoopOptimum, "_best_runs")
    assert_asked_once(calls, lambda: env.oracle(Budget(12, 2, 6)), "actions_per_turn is 6, too many")
