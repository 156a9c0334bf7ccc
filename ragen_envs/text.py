"""What a game must say of itself to be played in words."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

GRID: Final = "grid"
COORDINATES: Final = "coordinates"
BOTH: Final = "both"
IMAGE: Final = "image"
FORMATS: Final = (GRID, COORDINATES, BOTH)

Symbols = Mapping[str, str]
"""One printable character for the name of each kind of cell."""


class TextFace(Protocol):
    """The words of a game. All methods are pure reads of the env's present state.

    ``env`` is the unwrapped game; a face is a constant of the game's class and holds no state.
    """

    vocabularies: Mapping[str, Symbols]
    """Named symbol sets; "standard" always exists. Empty symbol sets for games without a board."""

    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards, a few sentences."""

    def legend(self, symbols: Symbols) -> str:
        """Return one line that explains the symbols, or "" if the game has no board."""

    def actions(self, env: Any) -> tuple[str, ...]:
        """Return the names of the actions, in the order of the env's action numbers."""

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        """Return the present state in one of ``FORMATS``."""
