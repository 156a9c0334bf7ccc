"""Draw the market: a stall for each arm, a disc for each player who chose it."""

from collections.abc import Sequence

import numpy as np

from ragen_envs.multi_agent.games.bandit_market.generator import Offer
from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import shorten, write, write_within

HEIGHT, WIDTH = 200, 150
"""Pixels of one stall."""
_ROOM = 130
"""Pixels between the sides of a stall."""


def render(offers: Sequence[Offer], choices: Sequence[int] | None, pots: Sequence[float]) -> d.Image:
    """Draw the arms, and the last round's choices and pots, if any, as RGB, uint8 (200, 150 * arms, 3)."""
    stalls = []
    for number, (name, arm) in enumerate(offers):
        seats = [seat for seat, choice in enumerate(choices or ()) if choice == number]
        stall = _stall(len(seats))
        write(stall, shorten(name, 2, 124), WIDTH // 2, 38, 2, d.WHITE)
        offer = f"{arm.pays:g} at {100 * arm.chance:g} of 100"
        write_within(stall, offer, WIDTH // 2, 76, 1, _ROOM, d.INK)
        if choices is not None:
            write_within(stall, f"{pots[number]:g}", WIDTH // 2, 104, 3, _ROOM, d.GOLD_DARK)
        for place, seat in enumerate(seats):
            write(stall, str(seat), *_place(place), 2, d.WHITE)
        stalls.append(stall)
    return np.concatenate(stalls, axis=1)


def _place(number: int) -> tuple[int, int]:
    """Return column and row of the middle of a player's disc."""
    return 24 + number % 4 * 34, 142 + number // 4 * 34


def _stall(players: int) -> d.Image:
    canvas = d.Canvas(HEIGHT, WIDTH, d.PAPER)
    canvas.fill(canvas.box(6, 16, 144, 192, radius=12), d.WHITE)
    canvas.fill(canvas.box(6, 16, 144, 60, radius=12), d.BLUE_DARK)
    for number in range(players):
        x, y = _place(number)
        canvas.fill(canvas.disc(x, y, 14), d.CORAL)
    return canvas.image()
