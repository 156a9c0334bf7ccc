"""Countdown as a picture: the target above the numbers that are left."""

from typing import Final

from ragen_envs.games.countdown.dynamics import Numbers
from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.cards import draw_cards

_CARD: Final = (72, 96)
_FEWEST_COLUMNS: Final = 5


def render(numbers: Numbers, target: int, given: int) -> d.Image:
    """Return the state as a fresh RGB image, uint8 (180, 552, 3), or (180, 660, 3) with six given numbers.

    Args:
        numbers: Those that are left.
        target: To be reached.
        given: How many numbers the level has at the start, so that all its pictures have one size.
    """
    cards = [(str(number), d.TEAL if number == target else d.WHITE) for number in numbers]
    return draw_cards([[(str(target), d.GOLD)], cards], _CARD, max(_FEWEST_COLUMNS, given))
