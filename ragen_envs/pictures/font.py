"""A small font of rounded strokes, drawn at any whole multiple of its 5x7 dots."""

from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ragen_envs.pictures.drawing import Canvas, Color, Image

_ROWS = 9
"""Rows of a line: seven of capitals, one of descenders, and half a row at each end."""

_STROKE = 1.15
_UNKNOWN = bytes.fromhex("7f4141417f")
# Each glyph: its character, then two hexadecimal digits a column, the lowest bit at the top.
_FONT = """
-08080808 .6060 ,8060 :6666 '03 $242a7f2a12 [7f4141 ]41417f (1c2241 )41221c <08142241 >41221408
&3649552250 |7f =1414141414 *2a1c7f1c2a /2010080402 %2313086462
+08083e0808 ?0201590906 03e41413e 142427f4040 26251494946 32241494936
41814127f10 52745454539 63c4a494930 70171090503 83649494936 9064949291e A7e1111117e B7f49494936
C3e41414122 D7f4141413e E7f49494941 F7f09090901 G3e4149497a H7f0808087f I417f41 J2040413f01
K7f08142241 L7f40404040 M7f020c027f N7f0408107f O3e4141413e P7f09090906 Q3e4151215e R7f09192946
S4649494931 T01017f0101 U3f4040403f V1f2040201f W3f4038403f X6314081463 Y0708700807 Z6151494543
a2054545478 b7f44444438 c3844444428 d384444447f e3854545418 f087e0902 g18a4a4a47c h7f04040478
i447d40 j80847d k7f102844 l417f40 m7c04780478 n7c04040478 o3844444438 pfc24242418 q18242424fc
r7c080404 s4854545424 t043f4424 u3c4040407c v1c2040201c w3c4038403c x4428102844 y1ca0a0a07c
z4464544c44
"""
_GLYPHS = {" ": bytes(3), **{glyph[0]: bytes.fromhex(glyph[1:]) for glyph in _FONT.split()}}


def measure(text: str, scale: int) -> int:
    """Return the width of a text in pixels."""
    return sum(len(_columns(character)) + 1 for character in text) * scale


def shorten(text: str, scale: int, width: int) -> str:
    """Return the text, cut to end in ``..`` if it is wider than ``width`` pixels."""
    if len(text) <= width and measure(text, scale) <= width:
        return text
    text = text[:width]
    while text and measure(text + "..", scale) > width:
        text = text[:-1]
    return text + ".."


def write(image: Image, text: str, x: int, y: int, scale: int, color: Color) -> None:
    """Write a line of text into an RGB image, uint8 (h, w, 3), in place; it must fit.

    ``x`` is the column of the line's middle, ``y`` the row of the middle of its capitals, and ``scale`` the
    pixels per dot of the font. A character that the font does not have is shown as a box.
    """
    cover = np.concatenate([_cover(character, scale) for character in text], axis=1)
    height, width, _ = cover.shape
    top, left = y - height // 2, x - width // 2
    part = image[top : top + height, left : left + width]
    part[:] = part + (np.asarray(color, np.float32) - part) * cover + 0.5


def write_within(image: Image, text: str, x: int, y: int, scale: int, width: int, color: Color) -> None:
    """Write text as large as fits, at most at a scale, and cut if even the smallest letters do not fit."""
    scale = next((s for s in range(scale, 1, -1) if measure(text[:width], s) <= width), 1)
    write(image, shorten(text, scale, width), x, y, scale, color)


def _columns(character: str) -> bytes:
    return _GLYPHS.get(character, _UNKNOWN)


@lru_cache(maxsize=256)
def _cover(character: str, scale: int) -> NDArray[np.float32]:
    """Return the share of each pixel that a character covers, float32 (h, w, 1) from 0 to 1."""
    canvas = Canvas(_ROWS * scale, (len(_columns(character)) + 1) * scale, (0, 0, 0), unit=scale)
    draw_character(canvas, character, 1, 1, 1, (1, 1, 1))
    cover = canvas.average()[:, :, :1]
    cover.setflags(write=False)
    return cover


def draw_character(canvas: Canvas, character: str, left: float, top: float, dot: float, color: Color) -> None:
    """Draw one character on a canvas, a box if the font does not have it.

    Its first dots are in column ``left`` and its highest in row ``top``, in units of the canvas. ``dot`` is
    the distance of two dots; a capital is six of them high and most are four wide.
    """
    columns = _columns(character)
    dots = {(x, y) for x, y in product(range(len(columns)), range(8)) if columns[x] >> y & 1}
    for x, y in dots:
        at = left + x * dot, top + y * dot
        canvas.fill(canvas.disc(*at, _STROKE * dot / 2), color)
        for dx, dy in ((1, 0), (0, 1), (1, 1), (-1, 1)):
            beside = {(x + dx, y), (x, y + dy)} if dx and dy else set()
            if (x + dx, y + dy) in dots and not beside & dots:
                end = at[0] + dx * dot, at[1] + dy * dot
                canvas.fill(canvas.line((at, end), _STROKE * dot), color)
