"""Find which cubes are the same level.

Two cubes are the same if one becomes the other by holding it another way (24 rotations), by looking at
it in a mirror, and by naming its colors anew, all of which leave the fewest turns as they are. So a
level is which stickers share a color, and its key is the smallest, over the 48 symmetries of the cube,
of a random linear hash, modulo 2^63, of the pairs of places that show the same color.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.games.cube.dynamics import STICKERS, Sticker, Vector
from ragen_envs.levels.seeding import STREAM_MASK

_ENTROPY: Final = 0xC0BE


@lru_cache(maxsize=1)
def symmetries() -> tuple[tuple[int, ...], ...]:
    """Return the image of each of the 24 places under each of the 48 symmetries of the cube."""
    places = {sticker: place for place, sticker in enumerate(STICKERS)}
    return tuple(
        tuple(places[Sticker(_image(c, order, signs), _image(n, order, signs))] for c, n in STICKERS)
        for order in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    )


def _image(vector: Vector, order: Sequence[int], signs: Sequence[int]) -> Vector:
    x, y, z = (sign * vector[axis] for sign, axis in zip(signs, order, strict=True))
    return x, y, z


@lru_cache(maxsize=1)
def _weights() -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the pairs of places, (2, 276), and the weight of each under each symmetry, (48, 276)."""
    state = np.random.SeedSequence(_ENTROPY).generate_state(24 * 24, np.uint64)
    weights = state.reshape(24, 24)
    pairs = np.array(list(combinations(range(24), 2))).T
    images = np.array(symmetries())[:, pairs]
    images.sort(axis=1)
    return pairs, weights[images[:, 0], images[:, 1]]


def cube_key(state: bytes) -> int:
    """Return the key of a cube, in [0, 2^63)."""
    pairs, weights = _weights()
    colors = np.frombuffer(state, np.uint8)
    same = colors[pairs[0]] == colors[pairs[1]]
    totals = weights[:, same].sum(axis=1)
    return int((totals & np.uint64(STREAM_MASK)).min())
