"""Share code among the compiled games: rows of the state, ends of episodes, keys of grid levels.

A kernel makes several passes over all envs. Each pass is either plain arithmetic on rows, which the
compiler turns into vector instructions, or one look-up without branches on data.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiled.compiling import in_place, inner, override, share
from ragen_envs.levels import keys, seeding, splits

# Rows of a state, (rows, n) int64; games add their own from ``OWN`` on.
PHASE: Final = 0
ELAPSED: Final = 1
STREAM: Final = 2
OWN: Final = 3

# Phases of an episode.
RUNNING: Final = 0
ENDED: Final = 1
DUE: Final = 2
"""The next episode begins now."""

# Rows of the flags that a step writes, (rows, n) bool; games add their own from ``OWN_FLAG`` on.
TERMINATED: Final = 0
TRUNCATED: Final = 1
SUCCESS: Final = 2
VALID: Final = 3
EFFECTIVE: Final = 4
OWN_FLAG: Final = 5

_MASK: Final = np.uint64(seeding.STREAM_MASK)

override(seeding.advance, seeding.advance_in_limbs)
share(seeding.word, seeding.below, seeding.uniform, splits.split_code)


def key_tables(height: int, width: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the weights (h*w,) and the symmetries (4 or 8, h*w) that ``grid_key`` needs."""
    return keys.key_weights(height, width).astype(np.uint64), keys.symmetries(height, width)


@in_place
def grid_key(cells: Any, weights: Any, images: Any) -> Any:
    """Return ``keys.grid_key`` of cell codes (h*w,), with the tables of ``key_tables``.

    Sums are taken in uint64, whose overflow is defined, and never mixed with signed integers.
    """
    best = _MASK
    for k in range(images.shape[0]):
        total = np.uint64(0)
        for i in range(images.shape[1]):
            total += (np.uint64(cells[images[k, i]]) + np.uint64(1)) * weights[i]
        best = min(best, total & _MASK)
    return np.int64(best)


@in_place
def first_outside(actions: Any, count: Any) -> Any:
    """Return the index of the first action that is not in [0, count), or -1."""
    # No branch in the usual pass; only a wrong action costs the second one, which finds its place.
    outside = 0
    for i in range(actions.shape[0]):
        outside |= int(actions[i] < 0) | int(actions[i] >= count)
    if outside != 0:
        for i in range(actions.shape[0]):
            if actions[i] < 0 or actions[i] >= count:
                return i
    return -1


@inner
def settle(state: Any, done: Any, limit: Any, flags: Any, idle: Any) -> Any:
    """Count the step, write phases, ends and validity, and return how many episodes ended.

    Args:
        state: (rows, n) int64.
        done: Which running envs terminate in this step, (n,) of 0 or 1.
        limit: Steps after which an episode is truncated.
        flags: (rows, n) bool.
        idle: The next phase of envs that were not running: DUE, or RUNNING where their episode begins now.
    """
    ended = 0
    for i in range(done.shape[0]):
        running = int(state[PHASE, i] == RUNNING)
        elapsed = (state[ELAPSED, i] + 1) * running
        cut = int(elapsed >= limit) & running
        over = cut | done[i]
        ended += over
        state[ELAPSED, i] = elapsed
        state[PHASE, i] = idle * (1 - running) | over
        flags[TERMINATED, i] = done[i]
        flags[TRUNCATED, i] = cut
        flags[VALID, i] = True
    return ended


@inner
def begin(state: Any, i: Any) -> None:
    """Begin the next episode of env ``i``."""
    state[PHASE, i] = RUNNING
    state[ELAPSED, i] = 0


@inner
def choose(state: Any, i: Any, count: Any) -> Any:
    """Return the number of the level that env ``i`` begins, of ``count``; one costs no random number."""
    if count == 1:
        return 0
    state[STREAM, i] = seeding.advance(state[STREAM, i])
    return seeding.below(state[STREAM, i], count)
