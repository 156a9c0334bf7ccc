"""The rules of the pocket cube, once, for every face of the game.

A state is 24 color codes, four for each face in the order of ``FACES``, each face row by row as it lies
in the unfolded cube::

        U
      L F R B
        D

The moves turn the right, upper and front layer, so that the corner down-back-left never moves: a turn
of the opposite layer is the same turn with the whole cube in hand. The permutations of the stickers
follow from where the stickers are in space: x to the right, y up, z towards the viewer.
"""

from itertools import product
from typing import Final, NamedTuple

Vector = tuple[int, int, int]

FACES: Final = ("up", "left", "front", "right", "back", "down")
COLORS: Final = ("white", "orange", "green", "red", "blue", "yellow")
"""The colors by code; in ``SOLVED`` they lie on ``FACES``, in their order."""

ACTION_NAMES: Final = ("R+", "R-", "U+", "U-", "F+", "F-")
SOLVED: Final = bytes(face for face in range(6) for _ in range(4))


class Sticker(NamedTuple):
    """The place of a sticker: its corner of the cube, and the direction in which it looks."""

    corner: Vector
    normal: Vector


_AXES: Final = (  # of each face: where it looks, and where its columns and rows lead
    ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
)


def _stickers() -> tuple[Sticker, ...]:
    """Return the place of each of the 24 stickers."""
    stickers = []
    for normal, across, down in _AXES:
        for row, column in product((-1, 1), repeat=2):
            x, y, z = (n + column * a + row * d for n, a, d in zip(normal, across, down, strict=True))
            stickers.append(Sticker((x, y, z), normal))
    return tuple(stickers)


STICKERS: Final = _stickers()


def _clockwise(vector: Vector, axis: int) -> Vector:
    """Return a vector after a quarter turn, clockwise as seen from the axis's positive end."""
    turned = list(vector)
    b, c = (axis + 1) % 3, (axis + 2) % 3
    turned[b], turned[c] = vector[c], -vector[b]
    return turned[0], turned[1], turned[2]


def _turns() -> tuple[tuple[int, ...], ...]:
    """Return, for each action, where the sticker at each place comes from."""
    places = {sticker: place for place, sticker in enumerate(STICKERS)}
    turns = []
    for axis in range(3):
        source = list(range(24))
        for place, (corner, normal) in enumerate(STICKERS):
            if corner[axis] == 1:
                after = Sticker(_clockwise(corner, axis), _clockwise(normal, axis))
                source[places[after]] = place
        turns += [tuple(source), tuple(sorted(range(24), key=source.__getitem__))]
    return tuple(turns)


TURNS: Final = _turns()
"""Place from which each sticker comes, by action; action ``a ^ 1`` undoes action ``a``."""


def turned(state: bytes, action: int) -> bytes:
    """Return the state after an action."""
    return bytes(map(state.__getitem__, TURNS[action]))


def is_solved(state: bytes) -> bool:
    """Return whether every face shows a single color."""
    return state[0::4] == state[1::4] == state[2::4] == state[3::4]
