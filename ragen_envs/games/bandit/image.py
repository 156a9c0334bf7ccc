"""The bandit as a picture: two slot machines, the pulled one lit, with what it paid."""

from functools import lru_cache

import numpy as np

from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import write, write_within

HEIGHT, WIDTH = 240, 400
"""Size of the picture in pixels."""

_PANEL = WIDTH // 2
_MIDDLE = 92
"""Column of a machine's middle in its panel; the lever stands to its right."""
_SIGN_WIDTH = 150
_TRAY_WIDTH = 92
_COIN = 56


def render(names: tuple[str, str], chosen: int | None, paid: float | None) -> d.Image:
    """Draw the two arms in the order shown, as a fresh RGB image, uint8 (240, 400, 3).

    Names of up to 12 characters always fit; longer ones are written small and, beyond that, cut. ``chosen``
    is the index of the pulled arm, and its coin is filled by what it paid, from 0 to 1.
    """
    panels = []
    for arm, name in enumerate(names):
        panel = _machine(pulled=arm == chosen, faded=chosen not in (None, arm)).copy()
        write_within(panel, name, _MIDDLE, 40, 3, _SIGN_WIDTH, d.WHITE)
        if arm == chosen and paid is not None:
            top, left = 118 - _COIN // 2, _MIDDLE - _COIN // 2
            panel[top : top + _COIN, left : left + _COIN] = _coin(min(max(paid, 0.0), 1.0))
            color = d.GOLD if paid > 0 else d.WHITE
            write_within(panel, f"{paid:g}", _MIDDLE, 190, 3, _TRAY_WIDTH, color)
        panels.append(panel)
    return np.concatenate(panels, axis=1)


@lru_cache(maxsize=64)
def _coin(fill: float) -> d.Image:
    """Return a coin, filled from below to a fraction from 0 to 1, uint8 (56, 56, 3)."""
    canvas = d.Canvas(_COIN, _COIN, d.WHITE)
    middle = _COIN / 2
    inner = middle - 5
    canvas.fill(canvas.disc(middle, middle, middle - 1), d.GOLD_DARK if fill > 0 else d.SLATE_PALE)
    inside = canvas.disc(middle, middle, inner)
    canvas.fill(inside, d.PAPER)
    canvas.fill(inside & (canvas.y > middle + inner * (1 - 2 * fill)), d.GOLD)
    shine = canvas.ring(middle, middle, inner - 4, 3) & (canvas.x + canvas.y < 1.5 * middle)
    canvas.fill(shine, d.WHITE, 0.7)
    return canvas.image()


@lru_cache(maxsize=4)
def _machine(pulled: bool, faded: bool) -> d.Image:
    """Return a machine without its letters, uint8 (240, 200, 3)."""
    canvas = d.Canvas(HEIGHT, _PANEL, d.PAPER)
    if pulled:
        canvas.fill(canvas.box(2, 4, 198, 236, radius=16), d.GOLD, 0.35)
    _lever(canvas, 156 if pulled else 92)
    canvas.fill(canvas.box(20, 216, 164, 228, radius=5), d.INK)
    canvas.fill(canvas.box(22, 30, 162, 220, radius=12), d.BLUE_DARK)
    canvas.fill(canvas.box(22, 30, 162, 214, radius=12), d.BLUE)
    canvas.fill(canvas.box(7, 16, 177, 64, radius=12), d.GOLD if pulled else d.SLATE_DARK)
    canvas.fill(canvas.box(10, 19, 174, 61, radius=9), d.INK)
    canvas.fill(canvas.box(42, 76, 142, 160, radius=10), d.BLUE_DARK)
    canvas.fill(canvas.box(47, 81, 137, 155, radius=6), d.WHITE)
    canvas.fill(canvas.box(42, 174, 142, 206, radius=8), d.INK)
    if faded:
        canvas.fill(canvas.box(0, 0, _PANEL, HEIGHT), d.PAPER, 0.5)
    picture = canvas.image()
    if not pulled:
        write(picture, "?", _MIDDLE, 118, 5, d.SLATE_PALE if faded else d.SLATE)
    return picture


def _lever(canvas: d.Canvas, knob: float) -> None:
    canvas.fill(canvas.line(((160, 124), (180, 124)), 10), d.SLATE_DARK)
    canvas.fill(canvas.line(((180, 124), (180, knob)), 7), d.SLATE)
    canvas.fill(canvas.disc(180, knob, 10), d.CORAL_DARK)
    canvas.fill(canvas.disc(180, knob - 1.5, 8.5), d.CORAL)
