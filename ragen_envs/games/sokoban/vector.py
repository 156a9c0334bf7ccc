"""Many Sokoban boards as one vectorised Gymnasium environment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiled.vector import GameVectorEnv, read_only
from ragen_envs.game.grids import padded
from ragen_envs.games.sokoban import generator, kernels
from ragen_envs.games.sokoban.dynamics import WALL
from ragen_envs.games.sokoban.env import SokobanEnv
from ragen_envs.games.sokoban.level_key import room_weights
from ragen_envs.games.sokoban.reverse_play import scratch
from ragen_envs.games.sokoban.text import decode_level


class SokobanVectorEnv(GameVectorEnv):
    """`num_envs` games of `SokobanEnv`, which describes spaces, rewards and settings.

    Observations are (num_envs, height, width) uint8.
    """

    game = SokobanEnv
    _made_anew = (*GameVectorEnv._made_anew, "_memory")
    kernels = (kernels.step, kernels.start_all, kernels.draw_all)
    single: SokobanEnv

    def _allocate(self) -> None:
        single, count = self.single, self.num_envs
        self._size = single.height * single.width
        self._cells = np.zeros(count * self._size + 2 * single.width, np.uint8)
        self._state = np.zeros((kernels.ROWS, count), np.int64)
        self._payoffs = kernels.payoffs(single.reward)
        self._tables = (
            generator.search_weights(single.height, single.width),
            np.array(room_weights(), np.int64),
        )

    def _link(self) -> None:
        single, pad = self.single, self.single.width
        self._boards = self._cells[pad:-pad].reshape(self.num_envs, self._size)
        self._observations = self._boards.reshape(self.num_envs, single.height, single.width)
        self._on_target = read_only(self._state[kernels.ON_TARGET])
        self._memory = scratch(self._size, single.boxes, single.law, kernels.zeros)
        super()._link()

    def _play(
        self, actions: NDArray[np.int64], rewards: NDArray[np.float64], flags: NDArray[np.bool_]
    ) -> int:
        ended: int = kernels.step(
            self._cells, self._state, actions, rewards, flags, self._scratch, self.single.width, self._limit,
            self._payoffs,
        )  # fmt: skip
        return ended

    def _add_infos(self, infos: dict[str, Any]) -> None:
        infos["boxes_on_target"] = self._on_target.copy() if self.copy else self._on_target
        infos["_boxes_on_target"] = self._everywhere

    def _draw(self, phase: int, splits: NDArray[np.int64]) -> None:
        single = self.single
        if kernels.draw_all(
            self._cells, self._state, phase, splits, single.height, single.width, single.boxes,
            single.law, *self._tables, self._memory,
        ) >= 0:  # fmt: skip
            raise generator.no_level(single.height, single.width, single.boxes)

    def _start(self, phase: int, levels: NDArray[np.uint8] | None) -> None:
        kernels.start_all(self._cells, self._state, phase, levels, self._size, self.single.width)

    def _decode(self, level: str) -> NDArray[np.uint8]:
        board, height, width = decode_level(level)
        cells, shape = np.frombuffer(board, np.uint8), (self.single.height, self.single.width)
        return cells if (height, width) == shape else padded(cells.reshape(height, -1), shape, WALL).ravel()

    def _write(self, ids: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        self._boards[ids] = rows

    def _show(self, i: int) -> None:
        self.single.place(self._boards[i].tobytes())
