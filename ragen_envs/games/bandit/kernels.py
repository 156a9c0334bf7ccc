"""Many bandits at once, compiled. Importing this module loads numba."""

from typing import Any, Final

from ragen_envs.compiled.compiling import in_place, inner, share
from ragen_envs.compiled.kernels import (
    DUE,
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
from ragen_envs.games.bandit import dynamics, generator
from ragen_envs.games.bandit.dynamics import RISKY, SAFE, Arm, pull
from ragen_envs.games.bandit.generator import draw
from ragen_envs.levels.seeding import advance, uniform

GAMBLE: Final = OWN
"""Row of a state: which arm is the gamble."""
CHOSEN: Final = OWN + 1
"""Row of a state: the arm that was pulled, or -1."""
ROWS: Final = OWN + 2
GAMBLED: Final = OWN_FLAG

share(dynamics.pull, generator.draw)


@in_place
def step(
    state: Any, actions: Any, rewards: Any, flags: Any, scratch: Any, arms: Any, better: Any,
    limit: Any,
) -> Any:  # fmt: skip
    """Pull one arm of each bandit; bandits whose episode is not running stay as they are.

    See ``GameVectorEnv._play``. ``arms`` are the sure ``Arm`` and the other one, (2, 2) float64; ``better``
    says whether the gamble is the better arm.
    """
    wrong = first_outside(actions, 2)
    if wrong >= 0:
        return -1 - wrong
    safe, risky = Arm(arms[SAFE, 0], arms[SAFE, 1]), Arm(arms[RISKY, 0], arms[RISKY, 1])
    done = scratch[: actions.shape[0]]
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
    return settle(state, done, limit, flags, DUE)


@inner
def start(state: Any, i: Any) -> None:
    """Begin an episode of bandit ``i``."""
    state[CHOSEN, i] = -1
    begin(state, i)


@in_place
def start_all(names: Any, state: Any, phase: Any, levels: Any) -> None:
    """Begin an episode of every bandit in a phase: on a level, two names and the gamble, or its own arms.

    ``levels`` is (1, 3), or None.
    """
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            if levels is not None:
                names[i, 0], names[i, 1] = levels[0, 0], levels[0, 1]
                state[GAMBLE, i] = levels[0, 2]
            start(state, i)


@in_place
def draw_all(names: Any, state: Any, phase: Any, wanted: Any, words: Any, hinted: Any) -> None:
    """Draw the arms of every bandit in a phase and begin an episode.

    ``names``, (n, 2) int64, receives the indices of the two names. ``words`` are, for each split, those of
    its safe- and its risky-sounding names; ``hinted`` says whether the risky-sounding one is the gamble.
    """
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            safe, risky = words[wanted[i]]
            first, second, swapped, state[STREAM, i] = draw(state[STREAM, i], safe.shape[0], risky.shape[0])
            names[i, swapped] = safe[first]
            names[i, 1 - swapped] = risky[second]
            state[GAMBLE, i] = 1 - swapped if hinted else swapped
            start(state, i)
