"""Which rooms can hold a level: every box must be pulled off its target at least once.

A pull needs three cells in a line: the box's, the player's, and the one that the player steps back to. In
the smallest rooms this leaves space for few boxes. The numbers are those of an exhaustive search over all
places of targets, boxes and player in a room without inner walls; a wall only takes possibilities away.
"""

from typing import Final

from ragen_envs.game.errors import RagenError

_MOST_BOXES: Final = {(3, 3): 3, (3, 4): 4, (3, 5): 6, (4, 4): 6}
"""Most boxes of small rooms, by the shorter and the longer side inside the outer walls."""


def most_boxes(height: int, width: int) -> int:
    """Return an upper bound on the boxes of a level on a board; exact for boards up to 6x6."""
    short, long = sorted((height - 2, width - 2))
    if short == 2:  # boxes move along the room only, and each row needs a free cell
        return 2 * ((long - 1) // 2)
    return _MOST_BOXES.get((short, long), short * long // 2)


def check_room(height: int, width: int, boxes: int) -> None:
    """Raise `RagenError` if no level with so many boxes fits on a board."""
    most = most_boxes(height, width)
    if most == 0:
        raise RagenError(
            f"size is {height}x{width}, but a board of 4x4 has no space for a level; use 4x5 or larger"
        )
    if boxes > most:
        raise RagenError(
            f"boxes is {boxes}, but a level on a board of {height}x{width} has at most {most}; "
            "use a larger size or fewer boxes"
        )
