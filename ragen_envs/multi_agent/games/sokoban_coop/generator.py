"""Draw levels of cooperative Sokoban: rooms with more movers, kept if one alone is too slow."""

from functools import lru_cache
from typing import Final, NamedTuple

from ragen_envs.errors import GenerationError, SolverLimitError
from ragen_envs.games.sokoban import generator
from ragen_envs.games.sokoban.dynamics import FLOOR, PLAYER
from ragen_envs.games.sokoban.laws import RAGEN, law_of
from ragen_envs.games.sokoban.level_key import level_key
from ragen_envs.games.sokoban.reverse_play import scratch
from ragen_envs.levels.seeding import advance, below
from ragen_envs.levels.splits import SPLITS, split_code
from ragen_envs.multi_agent.games.sokoban_coop.oracle import fewest_moves_alone, joint_plan

MAX_ATTEMPTS: Final = 2000
MAX_ALONE: Final = 24
"""Levels that keep the best single mover busy for longer are not used."""

MAX_STATES: Final = 5_000
"""Levels whose joint plan takes more search are not used."""


class Level(NamedTuple):
    """A board, its movers, and how long they may play."""

    board: bytes
    """Sokoban's cell codes, (h*w,), with a player on every mover's cell."""
    movers: tuple[int, ...]
    """The movers' indices, by seat."""
    rounds: int
    """The budget, see ``budget``; ``MAX_ALONE`` for a fixed level without one."""


@lru_cache(maxsize=1024)
def generate(height: int, width: int, boxes: int, players: int, stream: int, split: str) -> tuple[Level, int]:
    """Draw levels until one belongs to the split and needs the team; remembers the last ones.

    Returns:
        The level and the advanced stream.

    Raises:
        GenerationError: No such level within ``MAX_ATTEMPTS`` rooms.
    """
    size = height * width
    board = bytearray(size)
    law = law_of(RAGEN, None, height, width, boxes)
    buffers = scratch(size, boxes, law, lambda n: [0] * n)
    weights = generator.search_weights(height, width).tolist()
    wanted = SPLITS.index(split)
    for _ in range(MAX_ATTEMPTS):
        first, stream = generator.attempt(board, height, width, boxes, law, stream, weights, buffers)
        if not first or board.count(FLOOR) < players:
            continue
        movers, stream = _place(board, first, players, stream)
        if split_code(level_key(board, height, width)) != wanted:
            continue
        rounds = budget(bytes(board), movers, width)
        if rounds is not None:
            return Level(bytes(board), movers, rounds), stream
    raise GenerationError(
        f"no level with boxes={boxes} and players={players} on size={height}x{width} in "
        f"{MAX_ATTEMPTS} rooms; use a larger size or fewer boxes"
    )


def _place(board: bytearray, first: int, players: int, stream: int) -> tuple[tuple[int, ...], int]:
    """Put the other movers on random floor."""
    movers = [first]
    while len(movers) < players:
        stream = advance(stream)
        floor = [cell for cell, code in enumerate(board) if code == FLOOR]
        movers.append(floor[below(stream, len(floor))])
        board[movers[-1]] = PLAYER
    return tuple(movers), stream


def budget(board: bytes, movers: tuple[int, ...], width: int) -> int | None:
    """Return the rounds that are too few for one and enough for all, or None if there are none.

    A single mover has nobody to help it, and is given as many rounds as it needs.
    """
    try:
        alone = fewest_moves_alone(board, movers, width, MAX_ALONE)
        if alone is None or len(movers) == 1:
            return alone
        plan = joint_plan(board, movers, width, alone - 1, MAX_STATES)
    except SolverLimitError:
        return None
    return None if plan is None else alone - 1
