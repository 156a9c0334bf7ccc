"""Sokoban as a Gymnasium environment."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import (
    Level,
    Levels,
    read_choice,
    read_count,
    read_number,
    read_sides,
)
from ragen_envs.game.base import GameEnv
from ragen_envs.game.grids import padded, read_orientation
from ragen_envs.game.oracle import Budget, RandomBaseline, as_budget
from ragen_envs.games.sokoban import image, oracle, text
from ragen_envs.games.sokoban.dynamics import (
    ACTION_NAMES,
    BOX,
    BOX_ON_TARGET,
    PLAYER,
    PLAYER_ON_TARGET,
    REWARDS,
    WALL,
    Reward,
    move,
    offsets,
    play,
)
from ragen_envs.games.sokoban.generator import generate
from ragen_envs.games.sokoban.laws import GENERATORS, RAGEN, law_name, law_of
from ragen_envs.games.sokoban.level_key import SIDE, level_key
from ragen_envs.levels.files import read_level_file
from ragen_envs.levels.splits import TRAIN

PLAIN_NODES: Final = 1 << 15
"""Levels whose search may visit more states than this are drawn by compiled code."""

MAX_DRAWN_BOXES: Final = 16
"""Most boxes of a level that is drawn."""


class SokobanEnv(GameEnv[NDArray[np.uint8]]):
    """Push every box onto a target.

    ## Description
    The player pushes boxes, one at a time, by walking into them. Boxes cannot be pulled, so a careless
    push can make the level unsolvable. Transitions are deterministic.

    ## Action Space
    `Discrete(4)`: 0 up, 1 down, 2 left, 3 right. Walking into a wall, or into a box that has a wall or
    another box behind it, changes nothing but still costs the reward of an action.

    ## Observation Space
    `Box(0, 6, (height, width), uint8)` of cell codes: 0 wall, 1 empty, 2 target, 3 box on target,
    4 box, 5 player, 6 player on target.

    ## Starting State
    A random walk makes the room, and reverse play from the solved state places player and boxes
    (Racanière et al. 2017), so every level is solvable. By default levels follow the distribution of
    the paper's published code (`generator="ragen"`), with search depth 300 on 6x6 and 10 in
    `ragen/SokobanLarge-v0`. The levels of that code for 1,256 of the paper's seeds have a mean shortest
    solution of 4.1 moves (5.8 on 8x8), and ten random actions solve 18% (2.6%). Levels count as one if
    they are equal after a rotation, reflection or shift, and a walk of the player without a push. There
    are only about 4,500 different 6x6 levels (Chao's estimate from 100,000 draws), and the hundred most
    common ones make up half of the draws, so training can memorise most of its levels. To measure how
    well a model generalizes, use SokobanLarge.

    ## Rewards
    `reward="dense"` (the paper's): -0.1 for each action, +1 for a box pushed onto a target, -1 for a
    box pushed off one, +10 when all are on targets. `"sparse"`: 1 for the solution. A mapping of
    `per_action`, `box_on`, `box_off` and `solved` sets each weight.

    ## Episode End
    Terminates when every target has a box; truncated by the time limit.

    ## Information
    `success` (bool): every target has a box. `action_is_effective` (bool): the last action changed
    the board. `boxes_on_target` (int).

    ## Arguments
    `size`: side of the square, or (height, width), each from 4 to 32. `boxes`: 1 to 16. The smallest
    boards are 4x5, for at most two boxes, and 5x5, for at most three; with as many, some splits may have no
    levels. `reward`: see above. `level`: a
    fixed board of `#_O√XPS`, as a list of rows or a text. `levels`: a file or a list of boards, or
    `corridors` (docs/own-levels.md). `generator`: the level distribution, "ragen" or
    "gym-sokoban"; see `ragen_envs.games.sokoban.laws`. `search_depth`: depth of the search in reverse
    play, at least 3. A depth of d allows d - 2 steps; None means 300. `orientation`: which of the eight
    rotations and reflections of every level is played, from 0 to 7: modulo 4 the quarter turns
    counter-clockwise, which are mirrored from 4 on.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    tile_set = image.TILES
    action_names = ACTION_NAMES
    text = text.SokobanText()
    has_packs = True
    deterministic = True
    reward: Reward
    """Rewards of actions."""
    _drawn: tuple[int, int, int]
    """Height, width and boxes of levels that are drawn; the largest of own levels, within the limits."""
    targets: int
    """Targets of the level, at most as many as ``boxes``."""
    _player: int
    _left: int

    def __init__(
        self,
        size: int | Sequence[int] = 6,
        boxes: int = 1,
        reward: str | Mapping[str, float] = "dense",
        level: Level | None = None,
        levels: Levels | None = None,
        generator: str = RAGEN,
        search_depth: int | None = None,
        orientation: int = 0,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode, level, levels)
        self.height, self.width = read_sides("size", size, 4, SIDE)
        self.boxes = read_count("boxes", boxes, 1, MAX_DRAWN_BOXES)
        self.reward = _read_reward(reward)
        if self.own_levels:
            boards, heights, widths = zip(*map(text.decode_level, self.own_levels), strict=True)
            self.height, self.width = max(heights), max(widths)
            self.boxes = max(board.count(BOX) + board.count(BOX_ON_TARGET) for board in boards)
        read_choice("generator", generator, GENERATORS)
        if search_depth is not None:
            search_depth = read_count("search_depth", search_depth, 3)
        self._drawn = min(self.height, SIDE), min(self.width, SIDE), min(self.boxes, MAX_DRAWN_BOXES)
        self.law = law_of(generator, search_depth, *self._drawn)
        own = bool(self.own_levels)
        self.orientation = read_orientation(orientation, self.height, self.width, own)
        name = law_name(generator, search_depth)
        self.distribution = f"sokoban-{self.height}x{self.width}-{self.boxes}{name}"
        sides = self.height, self.width
        self._shape = sides[::-1] if self.orientation & 1 else sides
        self.observation_space = spaces.Box(0, PLAYER_ON_TARGET, self._shape, np.uint8)

    def play(self, action: int) -> tuple[float, bool, bool]:
        self._player, moved, self._left, paid = play(
            self._board, self._player, self._offsets[action], self._left, self.reward
        )
        return paid, self.success, moved == 1

    @property
    def success(self) -> bool:
        """Whether all targets have boxes, which is all boxes unless a level has more of them."""
        return self._left == 0

    @property
    def cells(self) -> bytes:
        """The present cell codes, (h*w,), row-major."""
        return bytes(self._board)

    @property
    def board(self) -> NDArray[np.uint8]:
        """The present cell codes, (height, width), a copy."""
        return np.ndarray((self.height, self.width), np.uint8, bytearray(self._board))

    @classmethod
    def read_levels(cls, path: str | PathLike[str]) -> tuple[str, ...]:
        """Return the levels of an XSB, SOK or Boxoban file, or the built-in "corridors"; see the base."""
        if path == text.CORRIDORS:
            return tuple(text.corridors())
        return read_level_file(path, text.is_file_row, text.read_file_rows)

    def solution(self) -> tuple[int, ...] | None:
        return oracle.solve(self.board)

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline | None:
        """Return the value of random actions; None if very many states are within reach."""
        ahead = oracle.look_ahead(self.board, self._left, self.reward, as_budget(budget))
        return None if ahead is None else RandomBaseline(ahead.random_success, ahead.random_return)

    def max_return(self, budget: Budget | int | None = None) -> float:
        """Return the largest sum of rewards, whether it solves the level or not.

        Where a solution does not fit the budget, the oracle still sets out on it, though other actions may
        pay more. With very many states within reach, it is the return of the oracle.
        """
        ahead = oracle.look_ahead(self.board, self._left, self.reward, as_budget(budget))
        return super().max_return(budget) if ahead is None else ahead.max_return

    def measures(self) -> dict[str, float]:
        """Return also the boxes, the cells that are no wall, and the pushes of the oracle's solution."""
        known: dict[str, float] = {"boxes": self.boxes, "cells": len(self._board) - self._board.count(WALL)}
        plan = self.solution()
        if plan is None:
            return known
        board, player, pushes = bytearray(self._board), self._player, 0
        for action in plan:
            player, _, pushed, _ = move(board, player, self._offsets[action])
            pushes += pushed > 0
        return {"solution_length": len(plan), "pushes": pushes, **known}

    def key(self, level: str) -> int:
        return level_key(*text.decode_level(level))

    def _start_drawn(self, split: str) -> None:
        draw = generate
        if self.law.nodes > PLAIN_NODES:
            from ragen_envs.games.sokoban.kernels import generate as draw
        self.height, self.width, boxes = self._drawn  # also after own levels of other sizes
        board, _, self.rng.stream = draw(self.height, self.width, boxes, self.law, self.rng.stream, split)
        self.place(board)

    def start(self, level: str) -> None:
        board, self.height, self.width = text.decode_level(level)
        self.place(board)

    def place(self, board: bytes | bytearray) -> None:
        """Set the state to a board of cell codes, (h*w,)."""
        self._initial, self._board = bytes(board), bytearray(board)
        self._offsets = offsets(self.width)
        self._left = text.open_targets(self._board)
        on_target = board.count(BOX_ON_TARGET)
        self.boxes, self.targets = board.count(BOX) + on_target, self._left + on_target
        self._player = max(board.find(PLAYER), board.find(PLAYER_ON_TARGET))

    @property
    def level(self) -> str:
        return text.encode_level(self._initial, self.width)

    def observe(self) -> NDArray[np.uint8]:
        if (self.height, self.width) != self._shape:
            return padded(self.board, self._shape, WALL)
        return np.ndarray(self._shape, np.uint8, bytearray(self._board))

    def info(self, effective: bool) -> dict[str, Any]:
        return {**super().info(effective), "boxes_on_target": self.targets - self._left}


def _read_reward(reward: str | Mapping[str, float]) -> Reward:
    if not isinstance(reward, Mapping):
        return REWARDS[read_choice("reward", reward, REWARDS)]
    weights = {name: read_number(f"reward['{name}']", value) for name, value in reward.items()}
    try:
        return Reward(**weights)
    except TypeError:
        raise RagenError(
            f"reward has the fields {', '.join(reward)}, but needs {', '.join(Reward._fields)}"
        ) from None
