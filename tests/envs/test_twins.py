"""Test levels that hardly differ from a training level, by code of its own: there are none."""

import numpy as np
import pytest

from ragen_envs.levels.instances import load_pack
from ragen_envs.levels.splits import SPLITS


def grid(level):
    return np.array([list(row) for row in level.split("/")])


def reached(cells, start, free):
    """Return the cells that can be walked to over cells with one of some signs."""
    found, queue = {start}, [start]
    for y, x in queue:
        for there in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            inside = all(0 <= at < size for at, size in zip(there, cells.shape, strict=True))
            if inside and there not in found and cells[there] in free:
                found.add(there)
                queue.append(there)
    return found


def place(cells, signs):
    return next((y, x) for (y, x), sign in np.ndenumerate(cells) if sign in signs)


def without_what_nobody_reaches(level):
    """Return a map of FrozenLake with holes in place of the frozen tiles that cannot be reached."""
    cells = grid(level)
    near = reached(cells, place(cells, "P"), "_")
    cells[place(cells, "P")] = "_"
    for at, sign in np.ndenumerate(cells):
        if sign == "_" and at not in near:
            cells[at] = "O"
    return cells


def without_player(level):
    """Return a room of Sokoban in which the player may stand wherever it can walk without a push."""
    cells = grid(level)
    player = place(cells, "PS")
    region = reached(cells, player, "_O")
    cells[player] = "O" if cells[player] == "S" else "_"
    for at in region:
        cells[at] = {"_": "p", "O": "o"}[cells[at]]
    rows, columns = np.nonzero(cells != "#")
    return cells[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def up_to_symmetry(cells):
    turned = [np.rot90(cells, turns) for turns in range(4)]
    images = [image for each in turned for image in (each, each[:, ::-1])]
    return min("/".join(map("".join, image)) for image in images)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distribution", "change"),
    [
        ("frozen_lake-4x4-0.8", without_what_nobody_reaches),
        ("sokoban-6x6-1", without_player),
        ("sokoban-8x8-2-depth10", without_player),
    ],
)
def test_no_level_has_a_twin_in_another_split(distribution, change):
    games = [
        {up_to_symmetry(change(row.level)) for row in load_pack(distribution, split)} for split in SPLITS
    ]
    assert len(set.union(*games)) == sum(map(len, games))


@pytest.mark.parametrize(
    ("distribution", "low", "high"),
    [("sokoban-6x6-1", 0.165, 0.205), ("sokoban-8x8-2-depth10", 0.012, 0.042)],
)
def test_the_packs_are_as_hard_as_the_published_levels(distribution, low, high):
    for split in SPLITS:
        chance = np.mean([row.facts["chance"] for row in load_pack(distribution, split)])
        assert low < chance < high
