"""What a search answers in place of a number of moves."""

from typing import Final

UNSOLVABLE: Final = -1
"""The board has no solution within ``max_moves``."""
LIMIT: Final = -2
"""``max_states`` were too few to decide the board."""
