"""Share code among the vector envs: seeding, frozen instances, autoreset and the packing of infos."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from ragen_envs.compiled.compiling import first_use
from ragen_envs.compiled.kernels import (
    DUE,
    EFFECTIVE,
    ENDED,
    OWN_FLAG,
    PHASE,
    RUNNING,
    STREAM,
    SUCCESS,
    TERMINATED,
    TRUNCATED,
    VALID,
)
from ragen_envs.errors import InstanceError, RagenError, ResetNeededError
from ragen_envs.game.arguments import read_count
from ragen_envs.game.grids import BoardText, grid_texts, signs_of
from ragen_envs.levels import seeding
from ragen_envs.levels.splits import SPLITS, read_split

NO_LIMIT = 2**53
"""Limits are at most this, which a float holds exactly."""
_BOOL = np.dtype(np.bool_)
_INT64 = np.dtype(np.int64)
_OPTIONS = ("split", "index", "noise", "reset_mask")


_Ints = NDArray[np.int64]

# Rewards, flags, terminations, truncations, infos; all of type bool is in the memory of the flags.
_Results = tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class GameVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """Many copies of one game, stepped by compiled code; equal to as many single envs, bit for bit.

    Seeds, options and infos are those of ``gymnasium.vector.SyncVectorEnv`` over the single envs,
    in each autoreset mode. ``reset(options=...)`` also takes ``index`` and ``noise`` as arrays of
    one integer an env, and ``reset_mask``. Each env stays in the split that it was asked for last, by
    ``split`` of the constructor or of a reset, in later resets and autoresets too. The masks in infos
    that are True everywhere are shared and read-only. Copies, pickled or deep, play on independently.
    """

    game: ClassVar[Any]
    """The single env, which reads the settings and draws the pictures."""
    flags: ClassVar[tuple[str, ...]] = ()
    """Names of the game's own infos of type bool."""
    kernels: ClassVar[tuple[Any, ...]]
    """The compiled functions that resets and steps call."""
    _made_anew: ClassVar[tuple[str, ...]] = ("_shown", "_kept")
    """Attributes that ``_link`` makes and that copies, which may be pickles, leave out."""

    single: Any
    """One single env with the same settings."""
    _state: NDArray[np.int64]
    """(rows, num_envs), see ``ragen_envs.compiled.kernels``."""
    _observations: NDArray[Any]
    """(num_envs, ...), the buffer that the kernels write."""
    _fixed: NDArray[Any] | None
    """The levels that the constructor was given, (k, ...), each in the form of ``_decode``."""
    _begins_again: bool = False
    """Whether a step also begins the episodes that are due, on the fixed level."""

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        render_mode: str | None = None,
        **settings: Any,
    ) -> None:
        """Create the envs.

        Args:
            num_envs: Number of envs, at least 1.
            max_episode_steps: Steps after which an episode is truncated; None or -1 for never.
            autoreset_mode: When an env whose episode ended is reset.
            copy: Return fresh arrays. If False, every ``step`` returns the same ones, also in infos, and
                overwrites them. Observations are read-only then.
            render_mode: As of the single env; ``render`` returns a tuple of frames.
            **settings: Keyword arguments of the single env.
        """
        self.num_envs = read_count("num_envs", num_envs, 1)
        self.copy = copy
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.single = self.game(render_mode=render_mode, **settings)
        if self.single.orientation:
            raise RagenError("orientation is for single envs; a vector env plays levels as they are")
        self._same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._disabled = self.autoreset_mode is AutoresetMode.DISABLED
        self.metadata = {**self.single.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self.single_observation_space = self.single.observation_space
        self.single_action_space = self.single.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        endless = max_episode_steps is None or max_episode_steps == -1
        limit = NO_LIMIT if endless else read_count("max_episode_steps", max_episode_steps, 1)
        self._limit = min(limit, NO_LIMIT)
        self._shape = (num_envs,)
        self._scratch = np.empty(num_envs, np.int64)
        self._flags_shape = (OWN_FLAG + len(self.flags), num_envs)
        own = enumerate(self.flags, OWN_FLAG)
        self._shown_flags = (
            (SUCCESS, "success"), (VALID, "action_is_valid"), (EFFECTIVE, "action_is_effective"), *own,
        )  # fmt: skip
        self._everywhere = np.ones(num_envs, np.bool_)
        self._ready = False
        self._waiting = False
        own = self.single.own_levels
        self._fixed = np.stack([*map(self._decode, own)]) if own else None
        self._splits = np.full(num_envs, SPLITS.index(self.single.split), np.int64)
        self._allocate()
        self._link()
        self._streams[:] = -1
        self._compile()

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start episodes; see the class.

        Raises:
            RagenError: A seed or an option has a wrong value, or its level does not exist or is not found.
        """
        ids, splits, noises, indices = _read_options(options, self._splits)
        seeds = _read_seeds(seed, self.num_envs)
        if seed is not None and not isinstance(seed, Sequence | np.ndarray):
            super().reset(seed=seeds[0])
        if indices is not None:
            self._reset_numbered(ids, splits, noises, indices)
        else:
            self._reset_fresh(ids, splits, noises, seeds)
        self._splits[ids] = splits
        started = (self._streams >= 0) & (self._state[PHASE] < DUE)
        self._ready = bool(started.all())
        self._waiting = bool((self._state[PHASE] == ENDED).any())
        return self._observe(), self._reset_infos(ids)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Play one action in each env.

        Args:
            actions: (num_envs,) integers.

        Raises:
            RagenError: An action is none. Nothing has changed then.
            ResetNeededError: An env was not reset, or its episode is over and autoreset is disabled.
        """
        if not self._ready or (self._waiting and self._disabled):
            raise self._not_ready()
        actions = _read_actions(actions, self._shape)
        rewards, flags, terminations, truncations, infos = self._kept or self._fresh_results()
        ended = self._play(actions, rewards, flags)
        if ended < 0:
            raise self._wrong_action(actions, -1 - ended)
        if self._kept:  # wrappers add infos of their own
            infos = infos.copy()
        if self._waiting and not self._begins_again:
            self._begin(DUE, self._splits)
        self._waiting = ended > 0 and not self._same_step
        self._add_infos(infos)
        if ended and self._same_step:
            infos.update(self._finish(infos))
        return self._observe(), rewards, terminations, truncations, infos

    def render(self) -> tuple[Any, ...] | None:
        """Return a frame of each env as the single env draws it, or None without a render mode.

        Raises:
            ResetNeededError: An env was not reset.
        """
        if self.render_mode is None:
            return None
        if not self._ready:
            raise ResetNeededError("call reset() for every env before render()")
        face, frames = self.single.text, []
        if self.render_mode == "ansi" and isinstance(face, BoardText):
            signs = signs_of(face.vocabularies["standard"], face.cell_names)
            return tuple(grid_texts(self._observations, signs))
        for i in range(self.num_envs):
            self._show(i)
            frames.append(self.single._frame())
        return tuple(frames)

    def _reset_numbered(self, ids: _Ints, splits: _Ints, noises: _Ints, indices: _Ints) -> None:
        single, levels, streams = self.single, [], []
        for code, index, noise in zip(splits.tolist(), indices.tolist(), noises.tolist(), strict=True):
            level = single.numbered_level(SPLITS[code], index)
            if level is None:
                single._reset_numbered(SPLITS[code], index, noise)
                level, stream = single.level, single.rng.stream
            else:
                stream = seeding.new_stream(SPLITS[code], single.distribution, index, noise)
            levels.append(self._decode(level))
            streams.append(stream)
        self._streams[ids] = streams
        self._write(ids, np.stack(levels))
        self._state[PHASE, ids] = DUE
        with first_use(*self.kernels):
            self._start(DUE, None)

    def _reset_fresh(self, ids: _Ints, splits: _Ints, noises: _Ints, seeds: list[int | None]) -> None:
        for i, code in zip(ids.tolist(), splits.tolist(), strict=True):
            seed = seeds[i]
            if seed is None and self._streams[i] < 0:
                seed = int(self.np_random.integers(2**31))
            if seed is not None:
                self._streams[i] = seeding.new_stream(SPLITS[code], self.single.distribution, seed)
        self._state[PHASE, ids] = DUE
        wanted = self._splits.copy()
        wanted[ids] = splits
        self._begin(DUE, wanted)
        for i, noise in zip(ids.tolist(), noises.tolist(), strict=True):
            if noise:
                self._streams[i] = seeding.jump(int(self._streams[i]), noise)

    def _begin(self, phase: int, splits: NDArray[np.int64]) -> None:
        """Begin episodes in every env in a phase, on levels of one's own or fresh ones of its split."""
        if self._fixed is not None:
            self._start(phase, self._fixed)
        else:
            ready, self._ready = self._ready, False  # stays False where a level is not found
            self._draw(phase, splits)
            self._ready = ready

    def _fresh_results(self) -> _Results:
        rewards, flags = np.empty(self.num_envs), np.empty(self._flags_shape, _BOOL)
        return rewards, flags, flags[TERMINATED], flags[TRUNCATED], self._flag_infos(flags)

    def _flag_infos(self, flags: NDArray[np.bool_]) -> dict[str, Any]:
        infos = self._masks.copy()
        for row, name in self._shown_flags:
            infos[name] = flags[row]
        return infos

    def _reset_infos(self, ids: NDArray[np.int64]) -> dict[str, Any]:
        flags = np.zeros(self._flags_shape, np.bool_)
        flags[VALID] = True
        infos = self._flag_infos(flags)
        self._add_infos(infos)
        return self._only(infos, ids)

    def _only(self, infos: dict[str, Any], ids: NDArray[np.int64]) -> dict[str, Any]:
        """Return the infos of some envs; the other items are zero."""
        chosen: dict[str, Any] = {}
        for name, values in infos.items():
            chosen[name] = np.zeros_like(values)
            chosen[name][ids] = values[ids]
        return chosen

    def _finish(self, infos: dict[str, Any]) -> dict[str, Any]:
        """Begin the next episodes where one has ended; return the last observations and infos."""
        over = self._state[PHASE] != RUNNING
        ids = np.flatnonzero(over)
        last = np.full(self.num_envs, None, dtype=object)
        for i, observation in zip(ids.tolist(), self._observations[ids], strict=True):
            last[i] = observation
        final = self._only(infos, ids)
        self._begin(ENDED, self._splits)
        for name in ("success", "action_is_effective", *self.flags):
            infos[name][ids] = False
        self._add_infos(infos)
        return {"final_obs": last, "final_info": final, "_final_obs": over, "_final_info": over.copy()}

    def _observe(self) -> NDArray[Any]:
        return self._observations.copy() if self.copy else self._shown

    def _not_ready(self) -> ResetNeededError:
        if not self._ready:
            return ResetNeededError("call reset() for every env before the first step()")
        over = np.flatnonzero(self._state[PHASE] != RUNNING).tolist()
        return ResetNeededError(
            f'the episodes of envs {over} are over; reset them with options={{"reset_mask": ...}}'
        )

    def _wrong_action(self, actions: NDArray[np.int64], i: int) -> RagenError:
        last = self.single.action_space.n - 1
        return RagenError(f"the action of env {i} is {actions[i]}, but must be from 0 to {last}")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what is made anew."""
        return {name: value for name, value in self.__dict__.items() if name not in self._made_anew}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, whose views of its buffers have become arrays of their own."""
        self.__dict__.update(state)
        self._link()
        self._compile()

    def _compile(self) -> None:
        """Call the kernels where they change nothing, so that no step has to wait for a compiler."""
        nobody, none = -1, np.empty(0, np.int64)
        with first_use(*self.kernels):
            if self._fixed is None:
                self._draw(nobody, self._splits)
            else:
                self._start(nobody, self._fixed)
            self._play(none, np.empty(0), np.empty((self._flags_shape[0], 0), np.bool_))

    def _add_infos(self, infos: dict[str, Any]) -> None:
        """Write the infos that are no flags, and their masks; most games have none."""

    @abstractmethod
    def _allocate(self) -> None:
        """Allocate the state, the observations, and the tables of the kernels."""

    def _link(self) -> None:
        """Create the views of the buffers; games with further views extend it, ``_observations`` first."""
        self._streams = self._state[STREAM]
        self._everywhere.flags.writeable = False
        self._masks = {key: self._everywhere for _, name in self._shown_flags for key in (name, f"_{name}")}
        self._shown = read_only(self._observations)
        self._kept = None if self.copy else self._fresh_results()

    @abstractmethod
    def _play(
        self, actions: NDArray[np.int64], rewards: NDArray[np.float64], flags: NDArray[np.bool_]
    ) -> int:
        """Step every env whose episode is running, by the game's kernel ``step``.

        It gets state, (rows, n) int64, actions, (n,) int64, rewards and flags to write, and scratch for n
        int64; ``limit`` is of steps. It returns how many episodes ended, or -1 - i if action i is none; then
        nothing has changed.
        """

    @abstractmethod
    def _start(self, phase: int, levels: NDArray[Any] | None) -> None:
        """Begin episodes in every env in a phase, on some decoded levels or else on those that they have."""

    @abstractmethod
    def _draw(self, phase: int, splits: NDArray[np.int64]) -> None:
        """Begin episodes in every env in a phase, on fresh levels; raises `GenerationError`."""

    @abstractmethod
    def _decode(self, level: str) -> NDArray[Any]:
        """Return a level in text form as a row of numbers."""

    @abstractmethod
    def _write(self, ids: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Write decoded levels into envs: one row for each env, or one for all."""

    @abstractmethod
    def _show(self, i: int) -> None:
        """Copy the state of env ``i`` to the single env, for drawing."""


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nothing can be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _read_options(options: dict[str, Any] | None, splits: _Ints) -> tuple[_Ints, _Ints, _Ints, _Ints | None]:
    """Return the options of a reset of envs that are in some splits, (n,); raises `RagenError`.

    They are the indices of the envs to reset, and of each the index in ``SPLITS`` of its split, its noise and
    the number of its level; None for fresh levels.
    """
    given, count = options or {}, len(splits)
    for name in given:
        if name not in _OPTIONS:
            raise InstanceError(f"unknown reset option '{name}'; known are {', '.join(_OPTIONS)}")
    if "split" in given:
        splits = np.full(count, SPLITS.index(read_split(given["split"])), np.int64)
    ids = np.arange(count)
    if "reset_mask" in given:
        ids = np.flatnonzero(_read_mask(given["reset_mask"], count))
    noise = _read_integers("noise", given.get("noise", 0), count)[ids]
    index = given.get("index")
    indices = None if index is None else _read_integers("index", index, count)[ids]
    return ids, splits[ids], noise, indices


def _read_mask(value: Any, count: int) -> NDArray[np.bool_]:
    mask = np.asarray(value)
    if mask.dtype != np.bool_ or mask.shape != (count,):
        raise InstanceError(f"reset_mask is {value!r:.80}, but must be an array of {count} bools")
    return mask


def _read_seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Return each env's seed: seed + i for an integer, as Gymnasium's vector envs have it."""
    if seed is None:
        return [None] * count
    if isinstance(seed, Sequence | np.ndarray):
        seeds = [None if item is None else read_count("seed", item, 0) for item in seed]
        if len(seeds) != count:
            raise RagenError(f"seed has {len(seeds)} items, but there are {count} envs")
        return seeds
    first = read_count("seed", seed, 0)
    return list(range(first, first + count))


def _read_actions(actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return actions as int64 of a shape; their range is checked elsewhere."""
    if type(actions) is np.ndarray and actions.dtype is _INT64 and actions.shape == shape:
        return actions if actions.flags.c_contiguous else actions.copy()
    array = np.asarray(actions)
    if array.shape != shape or array.dtype.kind not in "iu":
        raise RagenError(
            f"actions have the shape {array.shape} and the type {array.dtype}, but must be {shape} integers"
        )
    return np.ascontiguousarray(array, np.int64)


def _read_integers(name: str, value: Any, count: int) -> NDArray[np.int64]:
    array = np.asarray(value)
    is_integer = array.dtype.kind in "iu" and array.shape in ((), (count,))
    if not is_integer or (array < 0).any() or (array > np.iinfo(np.int64).max).any():
        raise InstanceError(
            f"{name} is {value!r}, but must be an integer from 0 to 2^63 - 1 or an array of {count} of them"
        )
    return np.broadcast_to(array, count).astype(np.int64)
