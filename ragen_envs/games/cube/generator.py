"""Scrambled cubes from a stream: random quarter turns from the solved cube, none undone by the next."""

from collections.abc import Iterator

from ragen_envs.games.cube.dynamics import ACTION_NAMES, SOLVED, turned
from ragen_envs.games.cube.pieces import normal
from ragen_envs.games.cube.symmetry import cube_key, symmetries
from ragen_envs.games.cube.text import encode_level
from ragen_envs.levels.seeding import Rng, new_stream
from ragen_envs.levels.splits import split_of


def scrambled(scramble: int, rng: Rng) -> bytes:
    """Return a cube after so many random turns, which may be solved again."""
    action = rng.integers(6)
    state = turned(SOLVED, action)
    for _ in range(scramble - 1):
        back, pick = action ^ 1, rng.integers(5)
        action = pick + (pick >= back)
        state = turned(state, action)
    return state


def levels(scramble: int) -> dict[int, bytes]:
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


def every_level(scramble: int, split: str) -> Iterator[str]:
    """Yield every level of the split once in a random order, each held and mirrored in a random way."""
    rng = Rng(new_stream(split, f"pack cube-{scramble}", 0))
    left = [state for key, state in sorted(levels(scramble).items()) if split_of(key) == split]
    while left:
        state = left.pop(rng.integers(len(left)))
        image = rng.choice(symmetries())
        yield encode_level(normal(bytes(map(state.__getitem__, image))))
