"""What a demonstrator thinks: facts of the state and where its next moves lead.

Every sentence is computed from the state and true of it; places are row and column from 0.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragen_envs.frozen_lake import dynamics as lake
from ragen_envs.sokoban import dynamics as sokoban


def _place(index: int, width: int) -> str:
    return f"{index // width} {index % width}"


def _places(indices: Sequence[int], width: int) -> str:
    return ", ".join(_place(i, width) for i in indices)


def sokoban_thought(board: NDArray[np.uint8], actions: Sequence[int], limit: int) -> str:
    """Tell player, boxes and targets, then each move with the cells it leads to.

    Args:
        board: ``(height, width)`` cell codes.
        actions: The moves, ``limit`` at most.
        limit: Actions that this turn allows; the moves count it down.
    """
    width = board.shape[1]
    cells = bytearray(board.tobytes())
    boxes = [i for i, c in enumerate(cells) if c in (sokoban.BOX, sokoban.BOX_ON_TARGET)]
    targets = [
        i
        for i, c in enumerate(cells)
        if c in (sokoban.TARGET, sokoban.BOX_ON_TARGET, sokoban.PLAYER_ON_TARGET)
    ]
    player = next(i for i, c in enumerate(cells) if c >= sokoban.PLAYER)
    parts = [
        f"Player {_place(player, width)}. Box {_places(boxes, width)}. "
        f"Target {_places(targets, width)}. Limit {limit}. Plan:"
    ]
    for left, action in zip(range(limit, 0, -1), actions, strict=False):
        offset = sokoban.offsets(width)[action]
        player, moved, pushed, _ = sokoban.move(cells, player, offset)
        name = f"{left} {sokoban.ACTION_NAMES[action]}"
        if not moved:
            parts.append(f"{name} blocked.")
        elif pushed:
            box = _place(pushed + offset, width)
            parts.append(f"{name} {_place(player, width)} push {box}.")
        else:
            parts.append(f"{name} {_place(player, width)}.")
    if not any(c == sokoban.BOX for c in cells):
        parts.append("Solved.")
    return " ".join(parts)


def lake_thought(
    tiles: Sequence[int], height: int, width: int, position: int, actions: Sequence[int], limit: int
) -> str:
    """Tell player, goal and holes, then each move with the cell it is meant to lead to.

    Args:
        tiles: Row by row.
        height: Rows.
        width: Columns.
        position: Cell of the player.
        actions: The moves, ``limit`` at most.
        limit: Actions that this turn allows; the moves count it down.
    """
    goal = list(tiles).index(lake.GOAL)
    holes = [i for i, t in enumerate(tiles) if t == lake.HOLE]
    parts = [f"Player {_place(position, width)}. Goal {_place(goal, width)}."]
    parts.append(f"Hole {_places(holes, width)}." if holes else "No hole.")
    parts.append(f"Limit {limit}. Plan:")
    for left, action in zip(range(limit, 0, -1), actions, strict=False):
        position = lake.walk(position, action, height, width)
        end = {lake.GOAL: " goal.", lake.HOLE: " hole."}.get(tiles[position], ".")
        parts.append(f"{left} {lake.ACTION_NAMES[action]} {_place(position, width)}{end}")
        if tiles[position] != lake.FROZEN:
            break
    return " ".join(parts)


def bandit_thought(safe: str, risky: str, choice: str) -> str:
    """Return which arm is which, and the choice by its role first, in the words that told the arm.

    A model that chose between two names at once would have to predict a mixture of them, and a mixture
    of two embeddings is close to those of other names. After a role it only has to repeat itself.
    """
    role = "Safe" if choice == safe else "Risky"
    return f"Safe: {safe}. Risky: {risky}. {role}: {choice}."
