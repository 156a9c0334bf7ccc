"""Random events for libraries that play a level several times at once."""

import random
from typing import Final

_BITS: Final = 48


def draw_noise() -> int:
    """Return a number of random events for one episode, in [0, 2^48); two are hardly ever equal.

    Members of a group that share their luck are compared by it: where a gamble pays nobody, its group learns
    to avoid it, whatever it is worth. The number is from Python's ``random``, which trainers seed, in every
    process differently.
    """
    return random.getrandbits(_BITS)
