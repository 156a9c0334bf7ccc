"""The rules of Mastermind: four pegs of six colors, and what a guess is told."""

import re
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted

COLORS: Final = {
    "R": "red", "G": "green", "B": "blue", "Y": "yellow", "O": "orange", "P": "purple"
}  # fmt: skip
PEGS: Final = 4
CODES: Final = tuple("".join(code) for code in product(COLORS, repeat=PEGS))
"""All 1,296 codes; a code's number is its place here."""
NUMBERS: Final = {code: number for number, code in enumerate(CODES)}
SOLVED: Final = (PEGS, 0)
_PEG: Final = re.compile("|".join((*COLORS.values(), *map(str.lower, COLORS))))
_PEGS: Final = re.compile(f"(?:{_PEG.pattern}){{{PEGS}}}")

Answer = tuple[int, int]
"""Numbers of pegs that are right in color and place, and in color only."""


def read_code(action: str) -> str | None:
    """Return the code that an action guesses, by letters or names of colors, or None if it is none.

    Spaces and commas do not matter.
    """
    signs = "".join(sign for sign in action.lower() if not sign.isspace() and sign != ",")
    code = "".join(peg[0].upper() for peg in _PEG.findall(signs)) if _PEGS.fullmatch(signs) else ""
    return code if code in NUMBERS else None


def answer_to(guess: str, code: str) -> Answer:
    """Return the answer to a guess."""
    right = sum(a == b for a, b in zip(guess, code, strict=True))
    shared = sum(min(guess.count(color), code.count(color)) for color in COLORS)
    return right, shared - right


def legality(action: str) -> Legality:
    """Return whether an action is a guess."""
    if read_code(action) is None:
        return illegal(f"{quoted(action)} is not four of the letters {' '.join(COLORS)}")
    return LEGAL


@lru_cache(maxsize=1)
def answers() -> NDArray[np.uint8]:
    """Return right * 8 + misplaced for each guess (row) and code (column), (1296, 1296)."""
    codes = np.array([[ord(sign) for sign in code] for code in CODES], np.uint8)
    right = (codes[:, None] == codes[None]).sum(2, dtype=np.uint8)
    counts = np.stack([(codes == ord(color)).sum(1) for color in COLORS], 1).astype(np.uint8)
    shared = np.minimum(counts[:, None], counts[None]).sum(2, dtype=np.uint8)
    table: NDArray[np.uint8] = right * 8 + shared - right
    table.setflags(write=False)
    return table
