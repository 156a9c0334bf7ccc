"""The shop as a picture: the page's lines on cards."""

from typing import Final

import numpy as np

from ragen_envs.games.webshop.catalogue import Catalogue
from ragen_envs.games.webshop.dynamics import Page
from ragen_envs.games.webshop.pages import plain_text
from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import measure, shorten, write

WIDTH: Final = 640
_LINE: Final = 30
_MARGIN: Final = 14
_SCALE: Final = 2
_LINES: Final = 18


def render(instruction: str, page: Page, catalogue: Catalogue) -> d.Image:
    """Return a page as a fresh RGB image, uint8 (568, 640, 3); what does not fit is cut."""
    lines = plain_text(instruction, page, catalogue).split("\n")
    wrapped = [part for number, line in enumerate(lines) for part in _wrap(line, first=number == 0)]
    picture = d.Canvas(_LINES * _LINE + 2 * _MARGIN, WIDTH, d.PAPER).image()
    for row, (line, color) in enumerate(wrapped[:_LINES]):
        top = _MARGIN + row * _LINE
        if color is not d.INK:
            picture[top : top + _LINE, _MARGIN : WIDTH - _MARGIN] = np.array(color, np.uint8)
        if short := shorten(line, _SCALE, WIDTH - 2 * _MARGIN - 8):
            middle = _MARGIN + 6 + measure(short, _SCALE) // 2
            write(picture, short, middle, top + _LINE // 2, _SCALE, d.INK)
    return picture


def _wrap(line: str, first: bool) -> list[tuple[str, d.Color]]:
    color = d.GOLD if first else d.WHITE if line.startswith("[P") else d.INK
    if line.startswith("Buttons:"):
        color = d.ICE
    words, parts = line.split(), [""]
    for word in words:
        longer = f"{parts[-1]} {word}".strip()
        if measure(longer, _SCALE) <= WIDTH - 2 * _MARGIN - 12:
            parts[-1] = longer
        else:
            parts.append(word)
    return [(part, color) for part in parts]
