"""Many bandits at once, compiled. Importing this module loads numba."""

from typing import Any, Final

import numpy as np

from ragen_envs.bandit import dynamics, generator
from ragen_envs.bandit.dynamics import pull
from ragen_envs.bandit.generator import draw
from ragen_envs.compiling import jit, share
from ragen_envs.kernels import (
    EFFECTIVE,
    OWN,
    OWN_FLAG,
    PHASE,
    RUNNING,
    STREAM,
    SUCCESS,
    begin,
    first_outside,
    settle,
)
from ragen_envs.seeding import advance, uniform

GAMBLE: Final = OWN
"""Row of a state: which arm is the gamble."""
CHOSEN: Final = OWN + 1
"""Row of a state: the arm that was pulled, or -1."""
ROWS: Final = OWN + 2
GAMBLED: Final = OWN_FLAG

share(dynamics.pull, generator.draw)


@jit
def step(
    state: Any, actions: Any, rewards: Any, flags: Any, safe: Any, risky: Any, better: Any,
    limit: Any,
) -> Any:  # fmt: skip
    """Pull one arm of each bandit; bandits whose episode is not running stay as they are.

    Args:
        state: (ROWS, n) int64; streams are advanced by one draw.
        actions: (n,) int64.
        rewards: Receives the payoffs, (n,) float64.
        flags: Receives the flags, (OWN_FLAG + 1, n) bool.
        safe: The sure ``Arm``, of floats.
        risky: The other ``Arm``, of floats.
        better: Whether the gamble is the better arm.
        limit: Steps after which an episode is truncated.

    Returns:
        How many episodes ended, or -1 - i if action i is none; then nothing has changed.
    """
    wrong = first_outside(actions, 2)
    if wrong >= 0:
        return -1 - wrong
    done = np.empty(actions.shape[0], np.int64)
    for i in range(actions.shape[0]):
        running = state[PHASE, i] == RUNNING
        stream = advance(state[STREAM, i])
        gambled = actions[i] == state[GAMBLE, i]
        payoff = pull(risky, uniform(stream)) if gambled else pull(safe, uniform(stream))
        rewards[i] = payoff if running else 0.0
        state[STREAM, i] = stream if running else state[STREAM, i]
        state[CHOSEN, i] = actions[i] if running else state[CHOSEN, i]
        flags[SUCCESS, i] = (gambled == better) & running
        flags[EFFECTIVE, i] = running
        flags[GAMBLED, i] = gambled & running
        done[i] = running
    return settle(state, done, limit, flags)


@jit
def start(state: Any, i: Any) -> None:
    """Begin an episode of bandit ``i``."""
    state[CHOSEN, i] = -1
    begin(state, i)


@jit
def start_all(state: Any, phase: Any) -> None:
    """Begin an episode of every bandit in a phase, whose arms are already in place."""
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            start(state, i)


@jit
def draw_all(names: Any, state: Any, phase: Any, safe: Any, risky: Any, hinted: Any) -> None:
    """Draw the arms of every bandit in a phase and begin an episode.

    Args:
        names: Receives the indices of the two names, (n, 2) int64.
        state: (ROWS, n) int64.
        phase: Which bandits.
        safe: Indices of the split's safe-sounding names, int64.
        risky: Indices of its risky-sounding names, int64.
        hinted: Whether the risky-sounding name is the gamble.
    """
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            first, second, swapped, state[STREAM, i] = draw(
                state[STREAM, i], safe.shape[0], risky.shape[0]
            )
            names[i, swapped] = safe[first]
            names[i, 1 - swapped] = risky[second]
            state[GAMBLE, i] = 1 - swapped if hinted else swapped
            start(state, i)
