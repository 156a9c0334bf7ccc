"""FrozenLake maps from a stream: random tiles, start and goal, with a path between them.

Plain integer code on buffers that are given, so that it runs the same when compiled.
"""

from collections.abc import MutableSequence, Sequence
from typing import Final

from ragen_envs.errors import GenerationError
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, HOLE, ways
from ragen_envs.levels.keys import grid_key
from ragen_envs.levels.seeding import advance, below, uniform
from ragen_envs.levels.splits import SPLITS, split_code

MAX_ATTEMPTS: Final = 5000

Ints = MutableSequence[int]


def attempt(tiles: Ints, height: int, width: int, p: float, stream: int) -> tuple[int, int]:
    """Draw one map: each tile frozen with probability ``p``, start and goal uniform and distinct.

    Returns the start's index and the advanced stream; a path may be missing.
    """
    size = height * width
    stream = advance(stream)
    start = below(stream, size)
    stream = advance(stream)
    goal = below(stream, size - 1)
    if goal >= start:
        goal += 1
    for i in range(size):
        stream = advance(stream)
        tiles[i] = FROZEN if uniform(stream) < p else HOLE
    tiles[start] = FROZEN
    tiles[goal] = GOAL
    return start, stream


def has_path(
    tiles: Sequence[int], size: int, start: int, paths: Sequence[int], seen: Ints, stack: Ints
) -> bool:
    """Return whether the goal can be walked to; ``seen`` is 1 on the frozen tiles that can be.

    ``paths`` is the table of ``dynamics.ways``; ``seen`` and ``stack`` are scratch of ``size`` items.
    """
    for i in range(size):
        seen[i] = 0
    stack[0] = start
    seen[start] = 1
    top = 1
    is_reached = False
    while top > 0:
        top -= 1
        here = 4 * stack[top]
        for direction in range(4):
            after = paths[here + direction]
            if tiles[after] == GOAL:
                is_reached = True
            elif tiles[after] == FROZEN and seen[after] == 0:
                seen[after] = 1
                stack[top] = after
                top += 1
    return is_reached


def close_off(tiles: Sequence[int], size: int, seen: Sequence[int], cells: Ints) -> None:
    """Write the tiles to ``cells``, with holes in place of the frozen ones that cannot be walked to."""
    for i in range(size):
        cells[i] = tiles[i]
        if tiles[i] == FROZEN and seen[i] == 0:
            cells[i] = HOLE


def walkable(tiles: bytes | bytearray, height: int, width: int, *starts: int) -> bytes:
    """Return a map with holes in place of the frozen tiles that cannot be walked to from any start."""
    size = height * width
    seen, walked, stack, cells = [0] * size, [0] * size, [0] * size, bytearray(size)
    for start in starts:
        has_path(tiles, size, start, ways(height, width), walked, stack)
        seen = [a | b for a, b in zip(seen, walked, strict=True)]
    close_off(tiles, size, seen, cells)
    return bytes(cells)


def map_key(tiles: bytes | bytearray, height: int, width: int, *starts: int) -> int:
    """Return the key of a map, equal for all rotations and reflections.

    Where the player starts among the tiles that can be walked to, and what lies beyond them, changes nothing.
    """
    return grid_key(walkable(tiles, height, width, *starts), height, width)


def generate(height: int, width: int, p: float, stream: int, split: str) -> tuple[bytes, int, int]:
    """Draw maps until one has a path and belongs to the split.

    Returns:
        The tiles, (h*w,) codes; the start's index; the advanced stream.

    Raises:
        GenerationError: No such map within ``MAX_ATTEMPTS`` draws.
    """
    size = height * width
    tiles = bytearray(size)
    seen, stack, paths = [0] * size, [0] * size, ways(height, width)
    wanted = SPLITS.index(split)
    for _ in range(MAX_ATTEMPTS):
        start, stream = attempt(tiles, height, width, p, stream)
        if has_path(tiles, size, start, paths, seen, stack) and (
            split_code(map_key(tiles, height, width, start)) == wanted
        ):
            return bytes(tiles), start, stream
    raise no_map(height, width, p)


def no_map(height: int, width: int, p: float) -> GenerationError:
    """Return the error that says that ``MAX_ATTEMPTS`` draws were not enough."""
    return GenerationError(
        f"none of {MAX_ATTEMPTS} {height}x{width} maps with p={p} has a path to the goal and belongs to the "
        "split; use a larger size or p"
    )
