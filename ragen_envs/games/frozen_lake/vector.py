"""Many lakes as one vectorised Gymnasium environment."""

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ragen_envs.compiled.kernels import key_tables
from ragen_envs.compiled.vector import GameVectorEnv
from ragen_envs.errors import RagenError
from ragen_envs.games.frozen_lake import generator, kernels
from ragen_envs.games.frozen_lake.dynamics import PLAYER, ways
from ragen_envs.games.frozen_lake.env import FrozenLakeEnv
from ragen_envs.games.frozen_lake.text import decode_level


class FrozenLakeVectorEnv(GameVectorEnv):
    """`num_envs` games of `FrozenLakeEnv`, which describes spaces, rewards and settings.

    Observations are (num_envs, height, width) uint8.
    """

    game = FrozenLakeEnv
    flags = ("slipped",)
    kernels = (kernels.step, kernels.start_all, kernels.draw_all)
    single: FrozenLakeEnv

    def _allocate(self) -> None:
        height, width = self.single.height, self.single.width
        self._tiles = np.zeros((self.num_envs, height * width), np.uint8)
        self._cells = np.zeros_like(self._tiles)
        self._state = np.zeros((kernels.ROWS, self.num_envs), np.int64)
        self._ways = np.array(ways(height, width))
        self._tables = key_tables(height, width)
        home = -1
        if (
            self._fixed is not None
            and len(self._fixed) == 1
            and self.autoreset_mode is AutoresetMode.NEXT_STEP
        ):
            self._begins_again, home = True, int(np.argmax(self._fixed))
        self._settings = np.array([self.single.success_rate, self._limit, home], np.float64)

    def _link(self) -> None:
        shape = (self.num_envs, self.single.height, self.single.width)
        self._observations = self._cells.reshape(shape)
        super()._link()

    def _play(
        self, actions: NDArray[np.int64], rewards: NDArray[np.float64], flags: NDArray[np.bool_]
    ) -> int:
        ended: int = kernels.step(
            self._tiles, self._cells, self._state, actions, rewards, flags, self._scratch, self._ways,
            self._settings,
        )  # fmt: skip
        return ended

    def _draw(self, phase: int, splits: NDArray[np.int64]) -> None:
        single = self.single
        if kernels.draw_all(
            self._tiles, self._cells, self._state, phase, splits, single.height, single.width, single.p,
            self._ways, *self._tables,
        ) >= 0:  # fmt: skip
            raise generator.no_map(single.height, single.width, single.p)

    def _start(self, phase: int, levels: NDArray[np.uint8] | None) -> None:
        kernels.start_all(self._tiles, self._cells, self._state, phase, levels)

    def _decode(self, level: str) -> NDArray[np.uint8]:
        tiles, height, width, start = decode_level(level)
        if (height, width) != (self.single.height, self.single.width):  # padding would move the edges
            raise RagenError("levels have several sizes, but a vector env of lakes needs one size")
        cells = np.frombuffer(bytearray(tiles), np.uint8)
        cells[start] += PLAYER
        return cells

    def _write(self, ids: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        self._tiles[ids] = rows

    def _show(self, i: int) -> None:
        position = int(self._state[kernels.POSITION, i])
        self.single.place(self._tiles[i].tobytes(), position)
