"""The picture that a link to the site shows where links have previews."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from ragen_bench.console.formats import number
from ragen_bench.leaderboard.standings import Standing

PREVIEW: Final = "preview.png"
SIZE: Final = (1200, 630)
"""Pixels, the shape that previews are cut to."""
_MOST: Final = 6
"""Entries that fit."""
_MARGIN, _TOP, _ROW, _BAR = 70, 225, 60, 26
_NAMES: Final = 480
"""Width of the titles, left of the bars."""
_INK, _FAINT, _COLOUR, _PAPER = "#1b1f24", "#5b6470", "#2f6fb0", "#ffffff"


def draw_preview(rows: Sequence[Standing], path: Path) -> None:
    """Write the first entries of the table over all games, with their scores as bars.

    Args:
        rows: Of the table, in its order; controls are left out, and scores that are not known.
        path: Of the PNG.
    """
    image = Image.new("RGB", SIZE, _PAPER)
    draw = ImageDraw.Draw(image)
    draw.text((_MARGIN, 60), "ragen-suite leaderboard", _INK, ImageFont.load_default(58))
    said = "Language-model agents in games with exact solvers. 0 is random play, 100 the optimum."
    draw.text((_MARGIN, 145), said, _FAINT, ImageFont.load_default(26))
    shown = [r for r in rows if not r.control and math.isfinite(r.row["score"])][:_MOST]
    for line, row in enumerate(shown):
        _draw_row(draw, row, _TOP + line * _ROW)
    image.save(path, optimize=True)


def _draw_row(draw: ImageDraw.ImageDraw, row: Standing, y: int) -> None:
    font = ImageFont.load_default(28)
    draw.text((_MARGIN, y), _fitted(row.title, font), _INK, font)
    left = _MARGIN + _NAMES
    whole = SIZE[0] - _MARGIN - 90 - left
    share = min(max(row.row["score"] / 100, 0.0), 1.0)
    draw.rectangle((left, y + 4, left + whole, y + 4 + _BAR), fill="#e8ebef")
    if share:
        draw.rectangle((left, y + 4, left + share * whole, y + 4 + _BAR), fill=_COLOUR)
    draw.text((SIZE[0] - _MARGIN, y), number(row.row["score"], 1), _INK, font, anchor="ra")


def _fitted(title: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Return a title, cut where it would reach the bars."""
    cut = title
    while font.getlength(cut) > _NAMES - 20:
        cut = cut[:-2].rstrip() + "…"
    return cut
