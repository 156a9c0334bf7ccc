"""Many bandits as one vectorised Gymnasium environment."""

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiled.vector import GameVectorEnv
from ragen_envs.games.bandit import generator, kernels
from ragen_envs.games.bandit.dynamics import RISKY, SAFE
from ragen_envs.games.bandit.env import BanditEnv
from ragen_envs.levels.splits import SPLITS


class BanditVectorEnv(GameVectorEnv):
    """`num_envs` games of `BanditEnv`, which describes spaces, rewards and settings.

    Observations are (num_envs, 2) int64.
    """

    game = BanditEnv
    flags = ("gambled",)
    kernels = (kernels.step, kernels.start_all, kernels.draw_all)
    single: BanditEnv

    def _allocate(self) -> None:
        self._observations = np.zeros((self.num_envs, 2), np.int64)
        self._state = np.zeros((kernels.ROWS, self.num_envs), np.int64)
        self._paid = np.zeros(self.num_envs)
        self._arms = np.array([self.single.arms[SAFE], self.single.arms[RISKY]], np.float64)
        self._better = self.single._better() == RISKY
        known, names = generator.name_indices(), generator.arm_names()
        # The indices of a split's safe-sounding names, and of its risky-sounding ones.
        self._names = tuple(
            tuple(np.array([known[name] for name in some]) for some in names[s]) for s in SPLITS
        )
        self._hinted = self.single.gamble == "sounds_risky"

    def _play(
        self, actions: NDArray[np.int64], rewards: NDArray[np.float64], flags: NDArray[np.bool_]
    ) -> int:
        ended: int = kernels.step(
            self._state, actions, rewards, flags, self._scratch, self._arms, self._better, self._limit
        )  # fmt: skip
        if ended >= 0:
            self._paid[: len(rewards)] = rewards
        return ended

    def _draw(self, phase: int, splits: NDArray[np.int64]) -> None:
        kernels.draw_all(self._observations, self._state, phase, splits, self._names, self._hinted)

    def _start(self, phase: int, levels: NDArray[np.int64] | None) -> None:
        kernels.start_all(self._observations, self._state, phase, levels)

    def _decode(self, level: str) -> NDArray[np.int64]:
        """Return the indices of the two names and which arm is the gamble."""
        self.single.start(level)
        return np.array([*self.single.observe(), 1 - self.single.sure_arm])

    def _write(self, ids: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._observations[ids] = rows[:, :2]
        self._state[kernels.GAMBLE, ids] = rows[:, 2]

    def _show(self, i: int) -> None:
        own, names = self.single.own_levels, generator.all_names()
        self.single.start(own[0] if own else "/".join(names[k] for k in self._observations[i]))
        chosen = int(self._state[kernels.CHOSEN, i])
        if chosen >= 0:
            self.single.chosen, self.single.paid = chosen, float(self._paid[i])
