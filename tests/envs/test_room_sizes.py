"""Boards that are too small for a level of Sokoban are refused, and no others."""

from functools import lru_cache
from itertools import combinations, pairwise, product

import gymnasium as gym
import pettingzoo
import pytest

from ragen_envs.errors import RagenError
from ragen_envs.games.sokoban.rooms import most_boxes

SMALL = [(2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (3, 3), (3, 4)]
"""Sides inside the outer walls."""


def pulled(floor, boxes, player):
    """Yield the states after a step of the player, with and without a box behind it."""
    row, column = player
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        ahead, behind = (row + down, column + right), (row - down, column - right)
        if ahead in floor and ahead not in boxes:
            yield boxes, ahead
            if behind in boxes:
                yield boxes - {behind} | {player}, ahead


@lru_cache(maxsize=64)
def holds_a_level(rows, columns, count):
    """Return whether all boxes can be pulled off their targets somewhere in an empty room."""
    floor = frozenset(product(range(rows), range(columns)))
    for targets in map(frozenset, combinations(sorted(floor), count)):
        seen = {(targets, player) for player in floor - targets}
        queue = list(seen)
        while queue:
            boxes, player = queue.pop()
            if not boxes & targets:
                return True
            new = set(pulled(floor, boxes, player)) - seen
            seen |= new
            queue += new
    return False


@pytest.mark.parametrize(("rows", "columns"), SMALL)
def test_the_numbers_of_small_rooms_are_exact(rows, columns):
    most = most_boxes(rows + 2, columns + 2)
    assert most == most_boxes(columns + 2, rows + 2)
    assert most == 0 or holds_a_level(rows, columns, most)
    assert not holds_a_level(rows, columns, most + 1)


def test_a_longer_side_never_makes_a_room_worse():
    for height in range(4, 12):
        numbers = [most_boxes(height, width) for width in range(4, 33)]
        assert all(few <= many for few, many in pairwise(numbers))


@pytest.mark.parametrize("face", [gym.make, lambda *a, **k: gym.make_vec(*a, num_envs=2, **k)])
@pytest.mark.parametrize(
    ("size", "boxes", "words"),
    [
        (4, 1, "size is 4x4.*use 4x5 or larger"),
        ((4, 4), 2, "size is 4x4"),
        ((4, 5), 3, "boxes is 3.*4x5 has at most 2"),
        ((6, 4), 3, "boxes is 3.*6x4 has at most 2"),
        (5, 4, "boxes is 4.*5x5 has at most 3"),
        (6, 7, "boxes is 7.*6x6 has at most 6"),
        ((4, 7), 16, "boxes is 16.*4x7 has at most 4"),
    ],
)
def test_rooms_without_levels_are_refused(size, boxes, words, face):
    with pytest.raises(RagenError, match=words):
        face("ragen/Sokoban-v0", size=size, boxes=boxes)


@pytest.mark.parametrize(("size", "boxes"), [((4, 6), 1), ((6, 4), 1), (5, 1), (5, 2), (6, 3)])
def test_small_rooms_with_levels_work(size, boxes):
    env = gym.make("ragen/Sokoban-v0", size=size, boxes=boxes)
    for seed in range(3):
        env.reset(seed=seed)
        assert env.unwrapped.oracle().value == 1.0


def test_a_fixed_level_may_be_smaller_than_generated_ones():
    env = gym.make("ragen/Sokoban-v0", level=["######", "#P_XO#", "######"])
    env.reset(seed=0)
    assert env.unwrapped.oracle().value == 1.0


def test_the_game_for_several_players_refuses_them_too():
    with pytest.raises(RagenError, match=r"boxes is 4.*5x5 has at most 3"):
        pettingzoo.make("parallel", "ragen/sokoban_coop-v0", size=5, boxes=4)
