"""One rule for every random number of the suite.

A *stream* is a 63-bit integer. It starts as a hash of what it is for (suite version, purpose, scope,
index, noise) through numpy's ``SeedSequence``, and is advanced by a permuted congruential generator
(O'Neill 2014, XSH-RR output) modulo 2^63. The same source runs as plain Python on unbounded integers and
compiled on 64-bit integers, where no intermediate value may reach 2^63 (numba lets LLVM assume that signed
integers never overflow). Only ``advance`` has a second form for compiled code, ``advance_in_limbs``:
Python's own product is four times as fast.
"""

import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

__all__ = ["STREAM_MASK", "SUITE_VERSION", "Rng", "advance", "below", "jump", "new_stream", "uniform", "word"]

_T = TypeVar("_T")

SUITE_VERSION: Final = 3
"""Part of every stream and every record: results of different suite versions are not comparable."""

STREAM_MASK: Final = 0x7FFFFFFFFFFFFFFF
"""The bits of a stream, and of the key of a level."""
_WORD: Final = 0xFFFFFFFF
_LOW: Final = 0x7FFFFFFF
_BY: Final = 6364136223846793005
_BY_LOW: Final = _BY & _LOW
_BY_HIGH: Final = _BY >> 31
_PLUS: Final = 1442695040888963407
_PLUS_LOW: Final = _PLUS & _LOW
_PLUS_HIGH: Final = _PLUS >> 31


def new_stream(purpose: str, scope: str, index: int, noise: int = 0) -> int:
    """Return the start of a stream, in [0, 2^63). Different arguments start independent streams.

    What the callers pass:

    - Levels and the chance of games: the split, the name of the level distribution, the number of the
      level or the seed of the reset, and the number of the noise draw.
    - Frozen packs: the split, ``"pack <distribution>"``, 0.
    - Replies of policies and engines: ``"policy <run seed>"`` or what the engine writes for; the
      episode and the turn; the number of the instance or of the iteration.
    - Training: ``"<what is drawn> <run seed>"``, the id of the game, a running number; or what is drawn,
      the run seed, the iteration.

    Args:
        purpose: The use of the numbers.
        scope: Part of that purpose, such as a level distribution or an episode.
        index: Number within the scope, >= 0.
        noise: Number of the independent draw within the index, >= 0.
    """
    entropy = (SUITE_VERSION, zlib.crc32(purpose.encode()), zlib.crc32(scope.encode()), index, noise)
    words = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    return int(words[0]) & STREAM_MASK


def advance(stream: int) -> int:
    """Return the stream after one draw. Multiplier and increment are Knuth's."""
    return (stream * _BY + _PLUS) & STREAM_MASK


def advance_in_limbs(stream: int) -> int:
    """Return ``advance`` of a stream where integers have 64 bits.

    The product is taken in two limbs, the lower of 31 bits.
    """
    tail = stream & _LOW
    low = tail * _BY_LOW + _PLUS_LOW
    high = ((stream >> 31) * _BY_LOW & _WORD) + (tail * _BY_HIGH & _WORD) + _PLUS_HIGH + (low >> 31)
    return ((high & _WORD) << 31) | (low & _LOW)


def word(stream: int) -> int:
    """Return the 32 random bits that a stream holds now, in [0, 2^32)."""
    mixed = (((stream >> 18) ^ stream) >> 26) & _WORD
    turn = stream >> 58
    return ((mixed >> turn) | (mixed << ((32 - turn) & 31))) & _WORD


def below(stream: int, bound: int) -> int:
    """Return an integer in [0, bound), bound up to 2^31; bias is below bound / 2^32."""
    return (word(stream) * bound) >> 32


def uniform(stream: int) -> float:
    """Return a float in [0, 1) from the stream's word, a multiple of 2^-32."""
    return word(stream) * 2.3283064365386963e-10


def jump(stream: int, noise: int) -> int:
    """Return the start of the ``noise``-th independent stream that branches off here.

    Noise 0 is the stream itself, so that an episode without noise index is noise draw 0.
    """
    if noise == 0:
        return stream
    words = np.random.SeedSequence((stream, noise)).generate_state(1, np.uint64)
    return int(words[0]) & STREAM_MASK


class Rng:
    """Random numbers of a stream, with methods named as those of numpy's generators or of ``random``.

    They depend on nothing but the stream: not on the version of numpy, nor on the machine.
    """

    def __init__(self, stream: int) -> None:
        self.stream = stream

    def integers(self, low: int, high: int | None = None) -> int:
        """Return an integer in [low, high), or in [0, low) without ``high``."""
        if high is None:
            low, high = 0, low
        self.stream = advance(self.stream)
        return low + below(self.stream, high - low)

    def random(self) -> float:
        """Return a float in [0, 1)."""
        self.stream = stream = advance(self.stream)
        return uniform(stream)

    def choice(self, items: Sequence[_T]) -> _T:
        """Return one of some items."""
        return items[self.integers(len(items))]

    def sample(self, items: Sequence[_T], count: int) -> list[_T]:
        """Return ``count`` different items, in random order."""
        left = list(items)
        for place in range(count):
            chosen = self.integers(place, len(left))
            left[place], left[chosen] = left[chosen], left[place]
        return left[:count]
