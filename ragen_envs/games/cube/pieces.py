"""The eight corners of the cube, and whether stickers make a cube at all."""

from typing import Final, NamedTuple

from ragen_envs.games.cube.dynamics import SOLVED, STICKERS, Vector


def _corners() -> tuple[tuple[int, int, int], ...]:
    """Return the three places of each corner, clockwise from the upper or lower one, the fixed last."""
    places: dict[Vector, list[int]] = {}
    for place, (corner, _) in enumerate(STICKERS):
        places.setdefault(corner, []).append(place)
    return tuple(_clockwise_places(corner, places[corner]) for corner in sorted(places, reverse=True))


def _clockwise_places(corner: Vector, places: list[int]) -> tuple[int, int, int]:
    x, y, z = corner
    by_axis = {next(a for a in range(3) if STICKERS[place].normal[a]): place for place in places}
    side, front = by_axis[0], by_axis[2]
    return (by_axis[1], side, front) if x * y * z > 0 else (by_axis[1], front, side)


CORNERS: Final = _corners()
"""The places of the stickers of each corner, clockwise as seen from outside, from the one that looks up
or down; the last corner is the one that never moves."""

_UP_AND_DOWN: Final = (SOLVED[0], SOLVED[-1])


class Pieces(NamedTuple):
    """A cube as its corners, with the colors named so that the one that never moves is at home."""

    order: tuple[int, ...]
    """Piece on each of the seven corners that move, by the corner where it belongs."""
    twists: tuple[int, ...]
    """Twist of each, 0 to 2: the clockwise position of its upper or lower color."""


_HOME: Final = {frozenset(SOLVED[place] for place in corner): number for number, corner in enumerate(CORNERS)}


def pieces_of(state: bytes) -> Pieces | None:
    """Return the corners of a cube held in any way and in any six colors, or None if it is none."""
    shown = [[state[place] for place in corner] for corner in CORNERS]
    names = _names(shown)
    if names is None:
        return None
    order, twists = [], []
    for colors in shown:
        named = [names[color] for color in colors]
        piece = _HOME.get(frozenset(named))
        if piece is None:
            return None
        twist = next(i for i, color in enumerate(named) if color in _UP_AND_DOWN)
        home = [SOLVED[place] for place in CORNERS[piece]]
        if named[twist:] + named[:twist] != home:
            return None
        order.append(piece)
        twists.append(twist)
    if sorted(order) != list(range(8)) or sum(twists) % 3:
        return None
    return Pieces(tuple(order[:7]), tuple(twists[:7]))


def normal(state: bytes) -> bytes:
    """Return a cube with its colors renamed so that the corner that never moves is at home."""
    names = _names([[state[place] for place in corner] for corner in CORNERS])
    assert names is not None
    return bytes(map(names.__getitem__, state))


def _names(shown: list[list[int]]) -> dict[int, int] | None:
    """Return the colors renamed so that the last corner is at home, or None if that is impossible.

    The color opposite to one is the only one that never shares a corner with it.
    """
    colors = {color for corner in shown for color in corner}
    if len(colors) != 6 or len(set(shown[-1])) != 3:
        return None
    names = {}
    for color, place in zip(shown[-1], CORNERS[-1], strict=True):
        beside = {other for corner in shown if color in corner for other in corner}
        if len(colors - beside) != 1:
            return None
        (opposite,) = colors - beside
        names[color], names[opposite] = SOLVED[place], _OPPOSITE[SOLVED[place]]
    return names if len(names) == 6 else None


_OPPOSITE: Final = {
    SOLVED[place]: SOLVED[other]
    for place, (_, normal) in enumerate(STICKERS)
    for other, (_, away) in enumerate(STICKERS)
    if all(a == -b for a, b in zip(normal, away, strict=True))
}
