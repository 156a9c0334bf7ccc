"""Reading what a vector env is given: seeds, reset options and actions."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.errors import InstanceError, RagenError
from ragen_envs.levels.splits import SPLITS, read_split

_INT64 = np.dtype(np.int64)
_OPTIONS = ("split", "index", "noise", "reset_mask")


@dataclass(frozen=True)
class ResetOptions:
    """What a reset is asked for; arrays have one item for each env that is reset."""

    ids: NDArray[np.int64]
    """Which envs are reset."""
    splits: NDArray[np.int64]
    """Indices in ``SPLITS`` of their splits."""
    indices: NDArray[np.int64] | None
    """Indices of frozen instances, or None for fresh levels."""
    noise: NDArray[np.int64]


def read_options(options: dict[str, Any] | None, splits: NDArray[np.int64]) -> ResetOptions:
    """Return the options of a reset of envs that are in some splits, (n,); raises `RagenError`."""
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
    return ResetOptions(ids, splits[ids], indices, noise)


def read_seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Return each env's seed: seed + i for an integer, as Gymnasium's vector envs have it."""
    if seed is None:
        return [None] * count
    if isinstance(seed, Sequence | np.ndarray):
        seeds = [None if item is None else _read_seed(item) for item in seed]
        if len(seeds) != count:
            raise RagenError(f"seed has {len(seeds)} items, but there are {count} envs")
        return seeds
    first = _read_seed(seed)
    return list(range(first, first + count))


def read_actions(actions: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return actions as int64 of a shape; their range is checked elsewhere."""
    if type(actions) is np.ndarray and actions.dtype is _INT64 and actions.shape == shape:
        return actions if actions.flags.c_contiguous else actions.copy()
    array = np.asarray(actions)
    if array.shape != shape or array.dtype.kind not in "iu":
        raise RagenError(
            f"actions have the shape {array.shape} and the type {array.dtype}, but must be "
            f"{shape} integers"
        )
    return np.ascontiguousarray(array, np.int64)


def _read_seed(value: Any) -> int:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise RagenError(f"seed is {value!r}, but must be an integer >= 0")
    return number


def _read_mask(mask: Any, count: int) -> NDArray[np.bool_]:
    if not isinstance(mask, np.ndarray) or mask.shape != (count,) or mask.dtype != np.bool_:
        raise InstanceError(f"reset_mask is {mask!r}, but must be a ({count},) array of bool")
    if not mask.any():
        raise InstanceError("reset_mask is False everywhere, but must name at least one env")
    return mask


def _read_integers(name: str, value: Any, count: int) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.shape not in ((), (count,)) or (array < 0).any():
        raise InstanceError(
            f"{name} is {value!r}, but must be an integer >= 0 or an array of {count} of them"
        )
    return np.broadcast_to(array, count).astype(np.int64)
