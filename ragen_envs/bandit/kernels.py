"""Many bandits at once, compiled. Importing this module loads numba."""

from typing import Any, Final

from ragen_envs.bandit import dynamics, generator
from ragen_envs.bandit.dynamics import pull
from ragen_envs.bandit.generator import draw as draw_pair
from ragen_envs.compiling import jit, share
from ragen_envs.kernels import ELAPSED, ENDED, first_outside
from ragen_envs.seeding import advance, uniform

GAMBLE: Final = 2
"""Column of a state: which arm is the gamble."""
CHOSEN: Final = 3
"""Column of a state: the arm that was pulled, or -1."""
COLUMNS: Final = 4

share(dynamics.pull, generator.draw)


@jit
def step(
    state: Any, streams: Any, actions: Any, rewards: Any, flags: Any, safe: Any, risky: Any,
    better: Any, limit: Any,
) -> Any:  # fmt: skip
    """Pull one arm of each bandit; bandits whose episode is over stay as they are.

    Args:
        state: (n, COLUMNS) int32.
        streams: (n,) int64, advanced by one draw.
        actions: (n,) int64.
        rewards: Receives the payoffs, (n,) float64.
        flags: Receives terminated, truncated, success, action_is_valid, action_is_effective and
            gambled, (6, n) bool.
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
    ended = 0
    for i in range(actions.shape[0]):
        if state[i, ENDED] != 0:
            rewards[i] = 0.0
            flags[:, i] = False
            continue
        streams[i] = advance(streams[i])
        draw = uniform(streams[i])
        gambled = actions[i] == state[i, GAMBLE]
        rewards[i] = pull(risky, draw) if gambled else pull(safe, draw)
        state[i, ENDED] = 1
        state[i, ELAPSED] += 1
        state[i, CHOSEN] = actions[i]
        flags[0, i] = True
        flags[1, i] = state[i, ELAPSED] >= limit
        flags[2, i] = gambled == better
        flags[3, i] = True
        flags[4, i] = True
        flags[5, i] = gambled
        ended += 1
    return ended


@jit
def start(state: Any, ids: Any) -> None:
    """Begin an episode of the bandits ``ids``."""
    for i in ids:
        state[i, ENDED] = 0
        state[i, ELAPSED] = 0
        state[i, CHOSEN] = -1


@jit
def draw(names: Any, state: Any, streams: Any, ids: Any, pairs: Any) -> None:
    """Draw the arms of the bandits ``ids``.

    Args:
        names: Receives the indices of the two names, (n, 2) int64.
        state: (n, COLUMNS) int32.
        streams: (n,) int64, advanced.
        ids: Which bandits, int64.
        pairs: For each pair of the split the rows as drawn and swapped: two names and which arm is
            the gamble, (pairs, 2, 3) int64.
    """
    for i in ids:
        pair, swapped, streams[i] = draw_pair(streams[i], pairs.shape[0])
        names[i, 0] = pairs[pair, swapped, 0]
        names[i, 1] = pairs[pair, swapped, 1]
        state[i, GAMBLE] = pairs[pair, swapped, 2]
