"""The level distributions of Sokoban: how a room is carved, searched backwards, and left."""

from collections.abc import Mapping
from math import comb
from typing import Final, NamedTuple

RAGEN: Final = "ragen"
_DEEP: Final = 298
"""Steps of the search depth 300, that of the paper's 6x6 game and of gym-sokoban."""


class Law(NamedTuple):
    """The settings that distinguish generators; plain numbers, so that compiled code can read it."""

    ragen: int
    """1: the rules of RAGEN's code, 0: those of gym-sokoban; see `GENERATORS`."""
    depth: int
    """Most steps of the reverse search from the solved state."""
    nodes: int
    """Most states that the search visits."""


_LAWS: Final[Mapping[str, Law]] = {
    RAGEN: Law(1, _DEEP, 300_000),
    "gym-sokoban": Law(0, _DEEP, 300_000),
}

GENERATORS: Final = tuple(_LAWS)
"""Names of the level distributions.

- ``ragen``: the generator of the paper's published code, and the default. Each step of the search pulls the
  box behind the player, if there is one, a change of box counts when the pulled box differs from the one
  before, and the player walks up to three steps at the end.
- ``gym-sokoban``: gym-sokoban 0.0.6, where the search also tries the steps that leave a box where it is,
  every pull counts as a change of box, and the player stays where the search ends.
"""


def law_of(generator: str, search_depth: int | None, height: int, width: int, boxes: int) -> Law:
    """Return a law whose search visits no more states than a room of this size can have.

    A search depth of d means at most d - 2 steps: the published code calls itself with d
    at the solved state, and returns without looking when the number, one less at each call, reaches 0.
    """
    law = _LAWS[generator]
    floor = (height - 2) * (width - 2)
    states = comb(floor, boxes) * max(floor - boxes, 1) * 2**boxes
    depth = law.depth if search_depth is None else search_depth - 2
    choices = 4 if law.ragen else 8
    # One of the choices leads back, or into the box that was just pulled. 16 steps exceed every limit.
    reached = 1 + choices * ((choices - 1) ** min(depth, 16) - 1) // (choices - 2)
    nodes = min(law.nodes, states, reached)
    return law._replace(depth=min(depth, nodes), nodes=nodes)


def law_name(generator: str, search_depth: int | None) -> str:
    """Return the part of a level distribution's name that tells the law; "" for the default."""
    depth = "" if search_depth in (None, _DEEP + 2) else f"-depth{search_depth}"
    return ("" if generator == RAGEN else f"-{generator}") + depth
