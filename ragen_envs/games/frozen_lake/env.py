"""FrozenLake as a Gymnasium environment."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.game.arguments import Level, Levels, read_number, read_sides
from ragen_envs.game.base import GameEnv, read_action
from ragen_envs.game.grids import padded, read_orientation
from ragen_envs.game.oracle import Advice, Budget, RandomBaseline, as_budget
from ragen_envs.games.frozen_lake import dynamics, generator, image, oracle, text
from ragen_envs.games.frozen_lake.dynamics import ACTION_NAMES
from ragen_envs.levels.files import read_level_file
from ragen_envs.levels.splits import TRAIN


class FrozenLakeEnv(GameEnv[NDArray[np.uint8]]):
    """Cross the ice to the goal without falling into a hole.

    ## Description
    On slippery ice the player moves in the intended direction with probability `success_rate` (1/3 in
    the paper), and otherwise to either side of it with equal probability, as in Gymnasium's FrozenLake.
    Unlike in Gymnasium, map, start and goal are random.

    ## Action Space
    `Discrete(4)`, as in Gymnasium: 0 left, 1 down, 2 right, 3 up. Walking off the edge stays in place.

    ## Observation Space
    `Box(0, 5, (height, width), uint8)` of cell codes: 0 frozen, 1 hole, 2 goal, 3 player, 4 player in
    hole, 5 player on goal.

    ## Starting State
    Start and goal are drawn uniformly, and every other tile is frozen with probability `p`. Maps
    without a path are drawn again. The slips of a frozen map are a fixed draw; the option `noise` of
    `reset` chooses another one. Maps count as one if they are equal after a rotation or reflection,
    wherever the player starts among the tiles that it can walk to, and whatever lies beyond them.

    ## Rewards
    1 at the goal, else 0.

    ## Episode End
    Terminates at the goal and in a hole; truncated by the time limit.

    ## Information
    `success` (bool): at the goal. `action_is_effective` (bool): the last action moved the player.
    `slipped` (bool): the ice turned the last action in another direction than intended, even if the
    player could not move there.

    ## Arguments
    `size`: side of the square, or (height, width), each from 2 to 16. `p`: probability of a frozen
    tile. `success_rate`: probability to move in the intended direction; 1 means no slipping. `level`: a
    fixed map of `_OGP` or of Gymnasium's `SFHG`, as a list of rows or a text. `levels`: a file or a
    list of maps (docs/own-levels.md). `orientation`: which of the eight rotations and reflections of
    every map is played, from 0 to 7: modulo 4 the quarter turns counter-clockwise, which are mirrored
    from 4 on, as are the slips.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    tile_set = image.TILES
    action_names = ACTION_NAMES
    text = text.FrozenLakeText()
    has_packs = True
    tiles: bytes
    """Tile codes of the map, row-major, without the player."""
    position: int
    """The player's index in ``tiles``."""
    _drawn: tuple[int, int]
    """Height and width of maps that are drawn; the largest of own maps."""

    def __init__(
        self,
        size: int | Sequence[int] = 4,
        p: float = 0.8,
        success_rate: float = 1 / 3,
        level: Level | None = None,
        levels: Levels | None = None,
        orientation: int = 0,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode, level, levels)
        self.height, self.width = read_sides("size", size, 2, text.MAX_SIDE)
        self.p = read_number("p", p, 0, 1)
        self.success_rate = read_number("success_rate", success_rate, 0, 1)
        if self.own_levels:
            sizes = [text.decode_level(each)[1:3] for each in self.own_levels]
            self.height, self.width = (max(sides) for sides in zip(*sizes, strict=True))
        own = bool(self.own_levels)
        self.orientation = read_orientation(orientation, self.height, self.width, own)
        self._drawn = self.height, self.width
        self.distribution = f"frozen_lake-{self.height}x{self.width}-{self.p:g}"
        sides = self.height, self.width
        self._shape = sides[::-1] if self.orientation & 1 else sides
        self.observation_space = spaces.Box(0, dynamics.PLAYER_ON_GOAL, self._shape, np.uint8)

    def play(self, action: int) -> tuple[float, bool, bool]:
        turn = dynamics.turned(self.success_rate, self.rng.random())
        if self.orientation & 4:
            turn = -turn
        direction, before = (action + turn) & 3, self.position
        self.position, reward, ended = dynamics.step(self.tiles, self._ways, before, direction)
        self._slipped = turn != 0
        return reward, ended, self.position != before

    @property
    def success(self) -> bool:
        return self.tiles[self.position] == dynamics.GOAL

    @property
    def cells(self) -> bytes:
        """The present cell codes, (h*w,), row-major."""
        return self.board.tobytes()

    @property
    def board(self) -> NDArray[np.uint8]:
        """The present cell codes, (height, width), a copy."""
        cells = bytearray(self.tiles)
        cells[self.position] += dynamics.PLAYER
        return np.ndarray((self.height, self.width), np.uint8, cells)

    @classmethod
    def read_levels(cls, path: str | PathLike[str]) -> tuple[str, ...]:
        return read_level_file(path, text.is_file_row, text.read_file_rows)

    @property
    def _lake(self) -> dynamics.Lake:
        return dynamics.Lake(self.tiles, self.height, self.width, self.success_rate)

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        return oracle.advise(self._lake, self.position, as_budget(budget))

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline:
        return oracle.random_baseline(self._lake, self.position, as_budget(budget))

    def turn_value(self, actions: Sequence[int], budget: Budget) -> float:
        """Return the largest probability to reach the goal after a turn, over where it may slip."""
        numbers = [read_action(action, ACTION_NAMES) for action in actions]
        return oracle.turn_value(self._lake, self.position, numbers, budget)

    def measures(self) -> dict[str, float]:
        """Return the moves of a shortest path, as if nothing slipped, the holes and the other cells."""
        size, holes = len(self.tiles), self.tiles.count(dynamics.HOLE)
        path = oracle.advise(self._lake._replace(success_rate=1.0), self.position, Budget(size, 1, size))
        known = {"solution_length": len(path.actions)} if path.value else {}
        return {**known, "holes": holes, "cells": size - holes}

    def key(self, level: str) -> int:
        return generator.map_key(*text.decode_level(level))

    def _start_drawn(self, split: str) -> None:
        self.height, self.width = self._drawn  # also after own maps of other sizes
        tiles, start, self.rng.stream = generator.generate(*self._drawn, self.p, self.rng.stream, split)
        self.place(tiles, start)

    def start(self, level: str) -> None:
        tiles, self.height, self.width, start = text.decode_level(level)
        self.place(tiles, start)

    def place(self, tiles: bytes, start: int) -> None:
        """Set the state to a map, (h*w,) tile codes, with the player on a cell."""
        self.tiles = tiles
        self._ways = dynamics.ways(self.height, self.width)
        self._start_position = self.position = start
        self._slipped = False

    @property
    def level(self) -> str:
        return text.encode_level(self.tiles, self.width, self._start_position)

    def observe(self) -> NDArray[np.uint8]:
        board = self.board
        return board if board.shape == self._shape else padded(board, self._shape, dynamics.HOLE)

    def info(self, effective: bool) -> dict[str, Any]:
        return {**super().info(effective), "slipped": self._slipped}
