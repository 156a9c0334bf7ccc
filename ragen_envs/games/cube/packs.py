"""The frozen levels of the cube: all that a number of turns can make."""

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import Final

from ragen_envs.games.cube.dynamics import ACTION_NAMES, SOLVED, turned
from ragen_envs.games.cube.oracle import chance_of_solution, fewest_turns
from ragen_envs.games.cube.pieces import normal
from ragen_envs.games.cube.symmetry import cube_key, symmetries
from ragen_envs.games.cube.text import encode_level
from ragen_envs.games.packs import USUAL, Recipe, Row
from ragen_envs.levels import seeding
from ragen_envs.levels.splits import split_of


@lru_cache(maxsize=1)
def levels(scramble: int) -> Mapping[int, bytes]:
    """Return a cube of every level that so many quarter turns make, by key.

    A breadth-first search over levels: those next to a cube are those next to all that are the same.
    Each turn changes the number of turns to the solved cube from even to odd or back.
    """
    states = {cube_key(SOLVED): SOLVED}
    layers: list[dict[int, bytes]] = [dict(states)]
    for _ in range(scramble):
        following: dict[int, bytes] = {}
        for state in layers[-1].values():
            for action in range(len(ACTION_NAMES)):
                after = turned(state, action)
                following.setdefault(cube_key(after), after)
        layers.append({key: state for key, state in following.items() if key not in states})
        states |= layers[-1]
    made = {key: state for layer in layers[scramble % 2 :: 2] for key, state in layer.items()}
    made.pop(cube_key(SOLVED), None)
    return made


def rows(scramble: int, split: str) -> Iterator[Row]:
    """Yield every level of the split once in a random order, each held and mirrored in a random way."""
    stream = seeding.new_stream(split, f"pack cube-{scramble}", 0)
    left = [state for key, state in sorted(levels(scramble).items()) if split_of(key) == split]
    while left:
        stream = seeding.advance(stream)
        state = left.pop(seeding.below(stream, len(left)))
        stream = seeding.advance(stream)
        image = symmetries()[seeding.below(stream, len(symmetries()))]
        shown = normal(bytes(map(state.__getitem__, image)))
        chance = chance_of_solution(shown, USUAL.reach)
        assert chance is not None
        moves = fewest_turns(shown)
        yield {"level": encode_level(shown), "moves": moves, "chance": round(chance, 6)}


PACKS: Final[dict[str, Recipe]] = {"cube-8": partial(rows, 8)}
