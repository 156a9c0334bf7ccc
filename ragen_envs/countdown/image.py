"""Countdown as a picture: the target above the numbers that are left."""

from typing import Final

from ragen_envs import drawing as d
from ragen_envs.cards import draw_cards
from ragen_envs.countdown.dynamics import Numbers

_CARD: Final = (72, 96)
_COLUMNS: Final = 5


def render(numbers: Numbers, target: int) -> d.Image:
    """Return the state as a fresh RGB image, uint8 (180, 552, 3)."""
    cards = [(str(number), d.TEAL if number == target else d.WHITE) for number in numbers]
    return draw_cards([[(str(target), d.GOLD)], cards], _CARD, _COLUMNS)
