"""Mastermind as a picture: a row of pegs for each guess, with its answer."""

from typing import Final

from ragen_envs.games.mastermind.dynamics import PEGS, SOLVED, Answer
from ragen_envs.pictures import drawing as d
from ragen_envs.pictures.font import write

_COLORS: Final = {
    "R": d.CORAL_DARK, "G": d.TEAL, "B": d.BLUE, "Y": d.GOLD, "O": (240, 142, 40), "P": (142, 84, 178)
}  # fmt: skip
_ROWS: Final = 10
_ROW: Final = 44
_WIDTH: Final = 296


def render(guesses: tuple[tuple[str, Answer], ...]) -> d.Image:
    """Return the last ten guesses as a fresh RGB image, uint8 (456, 296, 3)."""
    shown = guesses[-_ROWS:]
    first = len(guesses) - len(shown) + 1
    canvas = d.Canvas(_ROWS * _ROW + 16, _WIDTH, d.PAPER)
    canvas.fill(canvas.box(6, 6, _WIDTH - 6, _ROWS * _ROW + 10, radius=14), d.WOOD_LIGHT)
    for row in range(_ROWS):
        guess, answer = shown[row] if row < len(shown) else ("", (0, 0))
        _draw_row(canvas, 8 + row * _ROW + _ROW // 2, guess, answer)
    picture = canvas.image()
    for row in range(len(shown)):
        write(picture, str(first + row), 26, 8 + row * _ROW + _ROW // 2, 2, d.INK)
    return picture


def _draw_row(canvas: d.Canvas, y: int, guess: str, answer: Answer) -> None:
    if guess and answer == SOLVED:
        canvas.fill(canvas.box(10, y - 20, _WIDTH - 10, y + 20, radius=10), d.TEAL_LIGHT, 0.6)
    for peg in range(PEGS):
        x = 64 + peg * 42
        canvas.fill(canvas.disc(x, y, 16 if guess else 6), d.WOOD_DARK)
        if guess:
            canvas.fill(canvas.disc(x, y - 1, 15), _COLORS[guess[peg]])
    right, misplaced = answer
    for place in range(PEGS):
        color = d.INK if place < right else d.WHITE if place < right + misplaced else d.WOOD
        x, dy = 236 + (place % 2) * 22, (place // 2) * 20 - 10
        canvas.fill(canvas.disc(x, y + dy, 7), color)
