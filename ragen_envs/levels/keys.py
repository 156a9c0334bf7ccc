"""Keys of levels: one number for a level and all that are the same by symmetry.

The key of a grid is the smallest, over its symmetries, of a random linear hash of the cells modulo
2^63. Plain arithmetic, so that compiled generators compute the same keys.
"""

import hashlib
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.levels.seeding import STREAM_MASK

__all__ = ["grid_key", "hashed", "symmetries"]

_WEIGHT_ENTROPY: Final = 0x5A6E5


@lru_cache(maxsize=64)
def symmetries(height: int, width: int) -> NDArray[np.int64]:
    """Return the index permutations of the grid's symmetries, (8, h*w) if square, else (4, h*w)."""
    cells = np.arange(height * width).reshape(height, width)
    turns = range(4) if height == width else (0, 2)
    images = [view for k in turns for view in (np.rot90(cells, k), np.rot90(cells, k)[:, ::-1])]
    return np.stack([image.ravel() for image in images]).astype(np.int64)


@lru_cache(maxsize=64)
def key_weights(height: int, width: int) -> NDArray[np.int64]:
    """Return the fixed random weights of the cells of one grid shape, (h*w,) in [0, 2^63)."""
    sequence = np.random.SeedSequence((_WEIGHT_ENTROPY, height, width))
    weights = sequence.generate_state(height * width, np.uint64) & np.uint64(STREAM_MASK)
    return weights.astype(np.int64)


def hashed(key: str | bytes | int) -> int:
    """Return a number in [0, 2^63) that is equal for equal keys, and random otherwise."""
    data = key if isinstance(key, bytes) else str(key).encode()
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big") & STREAM_MASK


def grid_key(cells: bytes | bytearray, height: int, width: int) -> int:
    """Return the key of a grid of cell codes (row-major, h*w bytes), in [0, 2^63)."""
    values = np.frombuffer(cells, dtype=np.uint8).astype(np.int64) + 1
    images = values[symmetries(height, width)]
    return int(((images * key_weights(height, width)).sum(axis=1) & STREAM_MASK).min())
