"""What the vectorised games share: seeding, frozen instances, autoreset and the packing of infos."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ragen_envs import seeding
from ragen_envs.base import GameEnv
from ragen_envs.compiling import first_use
from ragen_envs.errors import GenerationError, InstanceError, RagenError
from ragen_envs.kernels import ENDED
from ragen_envs.splits import SPLITS, TRAIN
from ragen_envs.vector_options import ResetOptions, read_actions, read_options, read_seeds

NO_LIMIT = 2**31 - 1
_GAME_FLAGS = ("success", "action_is_valid", "action_is_effective")


class GameVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """Many copies of one game, stepped by compiled code; equal to as many single envs, bit for bit.

    Seeds, options and infos are those of ``gymnasium.vector.SyncVectorEnv`` over the single envs,
    in each autoreset mode. ``reset(options=...)`` also takes ``index`` and ``noise`` as arrays of
    one integer an env, and ``reset_mask``. The masks in infos that are True everywhere are shared
    and read-only.
    """

    game: ClassVar[type[GameEnv[Any]]]
    """The single env, which reads the settings and draws the pictures."""
    flags: ClassVar[tuple[str, ...]] = ()
    """Names of the game's own infos of type bool."""
    kernels: ClassVar[tuple[Any, ...]]
    """The compiled functions that the game calls."""

    _state: NDArray[np.int32]
    _observations: NDArray[Any]

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy_observations: bool = True,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """Make the envs.

        Args:
            num_envs: Number of envs, at least 1.
            max_episode_steps: Steps after which an episode is truncated; None or -1 for never.
            autoreset_mode: When an env whose episode ended is reset.
            copy_observations: Return observations as fresh arrays. If False, ``reset`` and ``step``
                return the one buffer that the next ``step`` overwrites.
            render_mode: As of the single env; ``render`` returns a tuple of frames.
            **settings: Keyword arguments of the single env.
        """
        if not isinstance(num_envs, int) or num_envs < 1:
            raise RagenError(f"num_envs is {num_envs!r}, but must be an integer >= 1")
        self.single = self.game(render_mode=render_mode, **settings)
        self.num_envs = num_envs
        self.copy_observations = copy_observations
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**self.single.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.single_observation_space = self.single.observation_space
        self.single_action_space = self.single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._limit = NO_LIMIT if max_episode_steps in (None, -1) else int(max_episode_steps)
        self._names = ("terminated", "truncated", *_GAME_FLAGS, *self.flags)
        self._everywhere = np.ones(num_envs, np.bool_)
        self._everywhere.flags.writeable = False
        self._masks = {f"_{name}": self._everywhere for name in self._names[2:]}
        self._streams = np.full(num_envs, -1, np.int64)
        self._ready = False
        self._waiting = 0
        fixed = self.single._fixed
        self._fixed = None if fixed is None else self._decode(fixed)[None]
        self._allocate()
        with first_use(*self.kernels):
            self._compile()

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,  # type: ignore[override]
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start episodes; see the class.

        Raises:
            RagenError: A seed or an option is none, or names an instance that does not exist.
        """
        asked = read_options(options, self.num_envs)
        seeds = read_seeds(seed, self.num_envs)
        if isinstance(seed, int):
            super().reset(seed=seed)
        if asked.indices is not None:
            self._reset_frozen(asked, asked.indices)
        else:
            self._reset_fresh(asked, seeds)
        self._ready = self._ready or bool((self._streams >= 0).all())
        self._waiting = int(np.count_nonzero(self._state[:, ENDED]))
        return self._observe(), self._reset_infos(asked.ids)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Play one action in each env.

        Args:
            actions: (num_envs,) integers.

        Raises:
            RagenError: An action is none, or an episode is over and autoreset is disabled. Nothing
                has changed then.
        """
        waiting = self._find_waiting() if self._waiting or not self._ready else None
        rewards = np.empty(self.num_envs)
        flags = np.empty((len(self._names), self.num_envs), np.bool_)
        actions = read_actions(actions, self.num_envs)
        infos: dict[str, Any] = {}
        ended = self._play(actions, rewards, flags, infos)
        if ended < 0:
            raise RagenError(self._wrong_action(-1 - ended, actions))
        terminated, truncated, *own = flags
        infos.update(zip(self._names[2:], own, strict=True))
        extra: dict[str, Any] = {}
        if waiting is not None:
            self._renew(waiting, infos)
        if ended and self.autoreset_mode is AutoresetMode.SAME_STEP:
            extra = self._finish(infos)
        else:
            self._waiting = ended
        return self._observe(), rewards, terminated, truncated, {**infos, **self._masks, **extra}

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each env as the single env draws it, or None without a render mode."""
        if self.render_mode is None:
            return None
        frames = []
        for i in range(self.num_envs):
            self._show(i)
            frames.append(self.single.render())
        return tuple(frames)

    def _reset_frozen(self, asked: ResetOptions, indices: NDArray[np.int64]) -> None:
        from ragen_envs.instances import load_pack

        name = self.single.distribution
        pack = load_pack(name, asked.split)
        if indices.max() >= len(pack):
            raise InstanceError(
                f"index is {indices.max()}, but split '{asked.split}' of '{name}' has instances "
                f"0 to {len(pack) - 1}"
            )
        for i, index, noise in zip(asked.ids, indices.tolist(), asked.noise.tolist(), strict=True):
            self._streams[i] = seeding.new_stream(asked.split, name, index, noise)
        self._write(asked.ids, np.stack([self._decode(pack[i].level) for i in indices.tolist()]))
        self._start(asked.ids)

    def _reset_fresh(self, asked: ResetOptions, seeds: list[int | None]) -> None:
        for i in asked.ids.tolist():
            seed = seeds[i]
            if seed is None and self._streams[i] < 0:
                seed = int(self.np_random.integers(2**31))
            if seed is not None:
                self._streams[i] = seeding.new_stream(asked.split, self.single.distribution, seed)
        self._begin(asked.ids, asked.split)
        for i, noise in zip(asked.ids.tolist(), asked.noise.tolist(), strict=True):
            if noise:
                self._streams[i] = seeding.jump(int(self._streams[i]), noise)

    def _begin(self, ids: NDArray[np.int64], split: str) -> None:
        """Begin episodes on the fixed level, or on fresh ones."""
        if self._fixed is not None:
            self._write(ids, self._fixed)
        elif self._draw(ids, SPLITS.index(split)) >= 0:
            raise self._failure()
        self._start(ids)

    def _find_waiting(self) -> NDArray[np.int64]:
        if not self._ready:
            raise gym.error.ResetNeeded("Cannot call step() before every env was reset")
        waiting = np.flatnonzero(self._state[:, ENDED])
        if self.autoreset_mode is AutoresetMode.DISABLED:
            raise RagenError(
                f"the episodes of envs {waiting.tolist()} are over; reset them with "
                'options={"reset_mask": ...} first'
            )
        return waiting

    def _renew(self, ids: NDArray[np.int64], infos: dict[str, Any]) -> None:
        """Begin the next training episodes of ``ids`` and write their infos."""
        self._begin(ids, TRAIN)
        self._describe(infos, ids)

    def _describe(self, infos: dict[str, Any], ids: NDArray[np.int64]) -> None:
        """Write the infos of episodes that have just begun."""
        for name in self._names[2:]:
            infos[name][ids] = name == "action_is_valid"

    def _reset_infos(self, ids: NDArray[np.int64]) -> dict[str, Any]:
        infos: dict[str, Any] = {
            name: np.zeros(self.num_envs, np.bool_) for name in self._names[2:]
        }
        self._describe(infos, ids)
        return {**infos, **{f"_{name}": self._mask(ids) for name in infos}}

    def _finish(self, infos: dict[str, Any]) -> dict[str, Any]:
        """Renew the episodes that ended in this step; return their last observations and infos."""
        ids = np.flatnonzero(self._state[:, ENDED])
        last = np.full(self.num_envs, None, dtype=object)
        for i, observation in zip(ids.tolist(), self._observations[ids], strict=True):
            last[i] = observation
        final: dict[str, Any] = {}
        for name, values in infos.items():
            final[name] = np.zeros_like(values)
            final[name][ids] = values[ids]
            final[f"_{name}"] = self._mask(ids)
        self._renew(ids, infos)
        masks = {"_final_obs": self._mask(ids), "_final_info": self._mask(ids)}
        return {"final_obs": last, "final_info": final, **masks}

    def _mask(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self.num_envs, np.bool_)
        mask[ids] = True
        return mask

    def _observe(self) -> NDArray[Any]:
        return self._observations.copy() if self.copy_observations else self._observations

    def _wrong_action(self, i: int, actions: NDArray[np.int64]) -> str:
        space = self.single_action_space
        assert isinstance(space, gym.spaces.Discrete)
        return f"action {i} is {actions[i]}, but must be from 0 to {space.n - 1}"

    def _compile(self) -> None:
        """Call each kernel on no env, so that compilation happens here and not in the first step."""
        none = np.empty(0, np.int64)
        self._draw(none, 0)
        self._start(none)
        self._play(none, np.empty(0), np.empty((len(self._names), 0), np.bool_), {})

    @abstractmethod
    def _allocate(self) -> None:
        """Make the state, the observations, and the tables of the kernels."""

    @abstractmethod
    def _play(
        self,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        flags: NDArray[np.bool_],
        infos: dict[str, Any],
    ) -> int:
        """Step all envs whose episode is not over; see the kernel. ``infos`` takes what is no flag."""

    @abstractmethod
    def _draw(self, ids: NDArray[np.int64], wanted: int) -> int:
        """Draw fresh levels of a split; returns -1 or an env that found none."""

    @abstractmethod
    def _decode(self, level: str) -> NDArray[Any]:
        """Return a level in text form as a row of numbers."""

    @abstractmethod
    def _write(self, ids: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Give envs levels that were decoded, one row an env or one for all."""

    @abstractmethod
    def _start(self, ids: NDArray[np.int64]) -> None:
        """Begin episodes on the levels that the envs were given."""

    @abstractmethod
    def _failure(self) -> GenerationError:
        """Return the error of the generator."""

    @abstractmethod
    def _show(self, i: int) -> None:
        """Make the state of env ``i`` the state of the single env, to be drawn."""
