"""What the multi-agent games on a board share: what a seat sees, as numbers and in words."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.game.grids import BoardText
from ragen_envs.game.text import Symbols
from ragen_envs.multi_agent.base import MultiAgentEnv


class SeatBoardText(BoardText):
    """Base of the text faces: the board as a seat sees it, and the game's own action names."""

    vocabularies: Mapping[str, Symbols]

    @abstractmethod
    def rules(self, env: Any) -> str:
        """Return the goal, the rules and the rewards."""

    def actions(self, env: Any) -> tuple[str, ...]:
        """Return the names of the actions."""
        names: tuple[str, ...] = env.game.names
        return names

    def cells(self, env: Any) -> tuple[bytearray, int]:
        """Return the cell codes as the seat sees them, and the width of the board."""
        return env.game.cells_of(env.seat), env.game.width


class MultiAgentBoardEnv(MultiAgentEnv):
    """Base of the games: each seat observes cell codes of its own, (height, width)."""

    metadata: dict[str, Any] = {
        "render_modes": ["human", "ansi", "rgb_array"],
        "is_parallelizable": True,
        "render_fps": 4,
    }
    text: ClassVar[SeatBoardText]
    height: int
    width: int

    @abstractmethod
    def cells_of(self, seat: int) -> bytearray:
        """Return the cell codes as a seat sees them, (h*w,), a copy."""

    def _set_board_spaces(self) -> None:
        highest = len(self.text.cell_names) - 1
        space = spaces.Box(0, highest, (self.height, self.width), np.uint8)
        self._set_spaces(space, len(self.names))

    def _observe(self, seat: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.cells_of(seat), np.uint8).reshape(self.height, self.width).copy()
