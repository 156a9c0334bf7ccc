"""Draw maps of the race: FrozenLake's, with starts that are equally far from the goal."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ragen_envs.errors import GenerationError
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, ways
from ragen_envs.games.frozen_lake.generator import attempt, map_key
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import split_of

MAX_ATTEMPTS: Final = 5000


class Lake(NamedTuple):
    """A map and where the walkers start."""

    tiles: bytes
    """Tile codes, (h*w,)."""
    starts: tuple[int, ...]
    """Start of each walker, by seat."""


def distances(tiles: Sequence[int], height: int, width: int) -> dict[int, int]:
    """Return the fewest steps to the goal from every frozen tile that has a path, without slipping."""
    table = ways(height, width)
    goal = tiles.index(GOAL)
    steps = {goal: 0}
    queue = [goal]
    for here in queue:
        for next_ in table[4 * here : 4 * here + 4]:
            if next_ not in steps and tiles[next_] == FROZEN:
                steps[next_] = steps[here] + 1
                queue.append(next_)
    return steps


def generate(height: int, width: int, p: float, players: int, rng: Rng, split: str) -> Lake:
    """Draw maps until one belongs to the split and has a fair start for everybody.

    Raises:
        GenerationError: No such map within ``MAX_ATTEMPTS`` draws.
    """
    tiles = bytearray(height * width)
    for _ in range(MAX_ATTEMPTS):
        start, rng.stream = attempt(tiles, height, width, p, rng.stream)
        far = distances(tiles, height, width)
        if start not in far:
            continue
        equal = [cell for cell in far if far[cell] == far[start] and cell != start]
        if len(equal) < players - 1:
            continue
        others = [equal.pop(rng.integers(len(equal))) for _ in range(players - 1)]
        lake = Lake(bytes(tiles), (start, *others))
        if split_of(map_key(lake.tiles, height, width, *lake.starts)) == split:
            return lake
    raise GenerationError(
        f"no {height}x{width} map with p={p} and {players} starts equally far from the goal that "
        f"belongs to the split in {MAX_ATTEMPTS} draws; use a larger size, another p or fewer players"
    )
