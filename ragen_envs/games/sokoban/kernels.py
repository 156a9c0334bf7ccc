"""Many Sokoban boards at once: the rules, the generator and the start of episodes, compiled.

The boards lie one after another in a flat buffer of cell codes with ``width`` cells of padding at both
ends, so that looking two cells ahead never leaves it. Importing this module loads numba.
"""

from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.compiled.compiling import first_use, in_place, inner, share
from ragen_envs.compiled.kernels import (
    DUE,
    EFFECTIVE,
    OWN,
    PHASE,
    RUNNING,
    STREAM,
    SUCCESS,
    begin,
    choose,
    first_outside,
    settle,
)
from ragen_envs.games.sokoban import dynamics, generator, level_key, reverse_play, rooms
from ragen_envs.games.sokoban.dynamics import (
    BOX_ON_TARGET,
    DOWN,
    LEFT,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    UP,
    Reward,
    account,
    move,
    offsets,
    reward_of,
)
from ragen_envs.games.sokoban.generator import draw
from ragen_envs.games.sokoban.laws import Law
from ragen_envs.games.sokoban.level_key import room_weights
from ragen_envs.games.sokoban.reverse_play import scratch
from ragen_envs.levels.splits import SPLITS

HERE: Final = OWN
"""Row of a state: the player's index in the flat buffer."""
OFF_TARGET: Final = OWN + 1
"""Row of a state: targets without a box."""
ON_TARGET: Final = OWN + 2
"""Row of a state: boxes on target."""
ROWS: Final = OWN + 3

share(
    dynamics.account, dynamics.offsets, rooms.carve_room,
    rooms.place_targets, reverse_play._box_key, reverse_play.first_visit, reverse_play.apart,
    reverse_play._is_free, reverse_play.reverse_play, reverse_play.walk_away,
    generator.attempt, generator.draw, level_key._flood, level_key.room_key,
)  # fmt: skip


_GAINED: Final = 7
"""First bit of the change of boxes on targets in an outcome."""


def _outcomes() -> NDArray[np.int64]:
    """Return the effects of ``dynamics.move``, for each pair of cells ahead: (7 * 7,) packed in bits.

    From the lowest: the new cell ahead (3 bits), the new cell beyond (3), whether the player moved
    (1), 1 + the change of boxes on targets (2).
    """
    packed = []
    for ahead, beyond in product(range(PLAYER_ON_TARGET + 1), repeat=2):
        line = bytearray([PLAYER, ahead, beyond])
        _, moved, _, gained = move(line, 0, 1)
        packed.append(line[1] | line[2] << 3 | moved << 6 | (gained + 1) << _GAINED)
    return np.array(packed)


_OUTCOMES: Final = _outcomes()
_UNPAID: Final = 6
"""Item of the payoffs: what is paid on a board whose episode is not running."""
_NOTHING: Final = 1 << _GAINED
"""Result of a step on a board whose episode is not running."""


def payoffs(reward: Reward) -> NDArray[np.float64]:
    """Return ``reward_of`` for every [1 + gained, solved], and a last 0: (7,)."""
    order = product((-1, 0, 1), (False, True))
    return np.array([*(reward_of(reward, gained, solved) for gained, solved in order), 0.0])


@in_place
def step(
    cells: Any, state: Any, actions: Any, rewards: Any, flags: Any, scratch: Any, width: Any, limit: Any,
    payoff: Any,
) -> Any:  # fmt: skip
    """Play one action on each board; boards whose episode is not running stay as they are.

    See ``GameVectorEnv._play``; ``cells`` is the flat buffer, and ``payoff`` the table of ``payoffs``.
    """
    wrong = first_outside(actions, 4)
    if wrong >= 0:
        return -1 - wrong
    done = scratch[: actions.shape[0]]
    move_all(cells, state, actions, width, done)
    for i in range(actions.shape[0]):
        bits = done[i]
        gained = (bits >> _GAINED) & 3
        left, won = account(state[OFF_TARGET, i], (bits >> 6) & 1, gained - 1)
        state[ON_TARGET, i] += state[OFF_TARGET, i] - left
        state[OFF_TARGET, i] = left
        flags[EFFECTIVE, i] = (bits >> 6) & 1
        done[i] = gained * 2 + won
    for i in range(actions.shape[0]):
        running = state[PHASE, i] == RUNNING
        rewards[i] = payoff[np.uint64(done[i] if running else _UNPAID)]
    for i in range(actions.shape[0]):
        solved = (state[OFF_TARGET, i] == 0) & (state[PHASE, i] == RUNNING)
        flags[SUCCESS, i] = solved
        done[i] = solved
    return settle(state, done, limit, flags, DUE)


@inner
def move_all(cells: Any, state: Any, actions: Any, width: Any, outcome: Any) -> None:
    """Make the moves; ``outcome`` receives the bits of ``_OUTCOMES``."""
    up, down, left, right = offsets(width)
    for i in range(actions.shape[0]):
        across = left if actions[i] == LEFT else right
        outcome[i] = up if actions[i] == UP else down if actions[i] == DOWN else across
    for i in range(actions.shape[0]):
        here = state[HERE, i]
        # For signed indices, numba checks for negative values.
        ahead = np.uint64(here + outcome[i])
        beyond = np.uint64(here + 2 * outcome[i])
        bits = _OUTCOMES[np.uint64(7) * cells[ahead] + cells[beyond]]
        if state[PHASE, i] != RUNNING:
            outcome[i] = _NOTHING
            continue
        moved = (bits >> 6) & 1
        cells[np.uint64(here)] -= 4 * moved
        cells[ahead] = bits & 7
        cells[beyond] = (bits >> 3) & 7
        state[HERE, i] = here + outcome[i] * moved
        outcome[i] = bits


@inner
def _copy(source: Any, target: Any) -> None:
    """Do ``target[:] = source``; numba's own assignment also compiles error messages."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@inner
def start(cells: Any, state: Any, i: Any, size: Any, width: Any) -> None:
    """Begin an episode on board ``i``, whose cells are already in the buffer."""
    first = width + i * size
    left = 0
    on_target = 0
    for cell in range(first, first + size):
        left += int(cells[cell] == TARGET) + int(cells[cell] == PLAYER_ON_TARGET)
        on_target += int(cells[cell] == BOX_ON_TARGET)
        if cells[cell] >= PLAYER:
            state[HERE, i] = cell
    state[OFF_TARGET, i] = left
    state[ON_TARGET, i] = on_target
    begin(state, i)


@in_place
def start_all(cells: Any, state: Any, phase: Any, levels: Any, size: Any, width: Any) -> None:
    """Begin an episode on every board in a phase: on one of some levels, (k, h*w), or on its own cells."""
    for i in range(state.shape[1]):
        if state[PHASE, i] == phase:
            if levels is not None:
                first = width + i * size
                _copy(levels[choose(state, i, levels.shape[0])], cells[first : first + size])
            start(cells, state, i, size, width)


def zeros(length: int) -> NDArray[np.int64]:
    """Return a buffer of ``draw_all``; a kernel that made it itself would take longer to compile."""
    return np.zeros(length, np.int64)


@in_place
def draw_all(
    cells: Any, state: Any, phase: Any, wanted: Any, height: Any, width: Any, boxes: Any, law: Any,
    search_weights: Any, room_weights: Any, buffers: Any,
) -> Any:  # fmt: skip
    """Begin an episode on a fresh level on every board in a phase.

    ``wanted`` holds the index of each board's split, (n,) int64. ``buffers`` are a ``Scratch``. Returns
    -1, or the first board for which ``MAX_ATTEMPTS`` rooms were not enough; its stream is as before.
    """
    size = height * width
    for i in range(state.shape[1]):
        if state[PHASE, i] != phase:
            continue
        board = cells[width + i * size : width + (i + 1) * size]
        player, stream = draw(
            board, height, width, boxes, law, state[STREAM, i], wanted[i], search_weights, room_weights,
            buffers,
        )  # fmt: skip
        if player == 0:
            return i
        state[STREAM, i] = stream
        start(cells, state, i, size, width)
    return -1


def generate(
    height: int, width: int, boxes: int, law: Law, stream: int, split: str
) -> tuple[bytearray, int, int]:
    """Draw levels as ``generator.generate`` does.

    Raises:
        GenerationError: As of ``generator.generate``.
    """
    cells = np.zeros((height + 2) * width, np.uint8)
    state = np.zeros((ROWS, 1), np.int64)
    state[STREAM] = stream
    weights = generator.search_weights(height, width)
    rooms = np.array(room_weights(), np.int64)
    with first_use(draw_all):
        failed = draw_all(
            cells, state, RUNNING, np.array([SPLITS.index(split)]), height, width, boxes, law, weights,
            rooms, scratch(height * width, boxes, law, zeros),
        )  # fmt: skip
    if failed >= 0:
        raise generator.no_level(height, width, boxes)
    board = bytearray(cells[width:-width].tobytes())
    return board, int(state[HERE, 0]) - width, int(state[STREAM, 0])
