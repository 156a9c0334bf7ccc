"""Many Sokoban boards as one vectorised Gymnasium environment."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import GenerationError
from ragen_envs.kernels import grid_key, key_tables
from ragen_envs.sokoban import generator, kernels
from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.sokoban.text import decode_level
from ragen_envs.vector import GameVectorEnv


class SokobanVectorEnv(GameVectorEnv):
    """`num_envs` games of `SokobanEnv`, which describes spaces, rewards and settings.

    Observations are (num_envs, height, width) uint8.
    """

    game = SokobanEnv
    kernels = (kernels.step, kernels.start, kernels.draw, grid_key)
    single: SokobanEnv

    def _allocate(self) -> None:
        single, count = self.single, self.num_envs
        self._size = single.height * single.width
        pad = single.width
        length = count * self._size
        self._cells = np.zeros(length + 2 * pad, np.uint8)
        self._boards = self._cells[pad : pad + length].reshape(count, self._size)
        self._observations = self._boards.reshape(count, single.height, single.width)
        self._distances = np.zeros(len(self._cells) if single.reward.closer else 0, np.int16)
        self._state = np.zeros((count, kernels.COLUMNS), np.int32)
        self._payoffs = kernels.payoffs(single.reward)
        self._tables = (
            generator.search_weights(single.height, single.width),
            *key_tables(single.height, single.width),
        )
        self._masks["_boxes_on_target"] = self._everywhere

    def _play(
        self,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        flags: NDArray[np.bool_],
        infos: dict[str, Any],
    ) -> int:
        on_target = np.empty(self.num_envs, np.int64)
        infos["boxes_on_target"] = on_target
        ended: int = kernels.step(
            self._cells, self._state, actions, rewards, flags, on_target, self.single.width,
            self.single.boxes, self._limit, self._payoffs, self._distances,
        )  # fmt: skip
        return ended

    def _describe(self, infos: dict[str, Any], ids: NDArray[np.int64]) -> None:
        super()._describe(infos, ids)
        on_target = infos.setdefault("boxes_on_target", np.zeros(self.num_envs, np.int64))
        on_target[ids] = self.single.boxes - self._state[ids, kernels.LEFT]

    def _draw(self, ids: NDArray[np.int64], wanted: int) -> int:
        single = self.single
        failed: int = kernels.draw(
            self._cells, self._streams, ids, single.height, single.width, single.boxes, wanted,
            *self._tables,
        )  # fmt: skip
        return failed

    def _decode(self, level: str) -> NDArray[np.uint8]:
        return _decode(level)

    def _write(self, ids: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        self._boards[ids] = rows

    def _start(self, ids: NDArray[np.int64]) -> None:
        width = self.single.width
        kernels.start(self._cells, self._state, ids, self._size, width, self._distances)

    def _failure(self) -> GenerationError:
        return generator.no_level(self.single.height, self.single.width, self.single.boxes)

    def _show(self, i: int) -> None:
        self.single._start(bytearray(self._boards[i].tobytes()))


@lru_cache(maxsize=8192)
def _decode(level: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes(decode_level(level)[0]), np.uint8)
