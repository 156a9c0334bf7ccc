"""A game added from outside: switch all lamps off, where each press also switches its neighbours."""

from functools import lru_cache, reduce
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs import GameSpec, register_game
from ragen_envs.game import GameEnv, Rng
from ragen_envs.game.grids import BoardText
from ragen_envs.levels.keys import grid_key

SIDE = 3
LAMPS = SIDE * SIDE
NAMES = tuple(f"{row}{column}" for row in "ABC" for column in "123")


def pressed(lamps: bytes, lamp: int) -> bytes:
    """Return the lamps (0 dark, 1 lit) after a press: the lamp and its neighbours change."""
    row, column = divmod(lamp, SIDE)
    return bytes(lit ^ (abs(i // SIDE - row) + abs(i % SIDE - column) <= 1) for i, lit in enumerate(lamps))


@lru_cache(maxsize=512)
def solution(lamps: bytes) -> tuple[int, ...]:
    """Return the fewest presses that darken all lamps; their order does not matter."""
    plans = (plan for count in range(LAMPS + 1) for plan in combinations(range(LAMPS), count))
    return next(plan for plan in plans if not any(reduce(pressed, plan, lamps)))


class LightsOutText(BoardText):
    """The words of the game; ``BoardText`` adds the legend and the forms of the state."""

    vocabularies: ClassVar = {"standard": {"dark": "_", "lit": "O"}}
    cell_names = ("dark", "lit")

    def rules(self, env: Any) -> str:
        return (
            "You see lamps in rows A to C, from top to bottom, and columns 1 to 3. Make all of them dark. "
            "Pressing a lamp switches it and the lamps above, below, left and right of it. "
            "Rewards: 1 when all lamps are dark, else 0."
        )

    def actions(self, env: Any) -> tuple[str, ...]:
        return NAMES

    def cells(self, env: Any) -> tuple[bytes, int]:
        return env.lamps, SIDE

    def coordinates(self, env: Any) -> str:
        return "lit: " + ", ".join(name for name, lit in zip(NAMES, env.lamps, strict=True) if lit)


class LightsOutEnv(GameEnv[NDArray[np.int8]]):
    """Press a lamp (0 to 8, row by row) until all are dark; the observation is the lamps."""

    text = LightsOutText()
    action_names = NAMES
    deterministic = True

    def __init__(
        self, level: str | None = None, split: str = "train", render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode, level)
        self.observation_space = spaces.MultiBinary(LAMPS)

    def draw_level(self, rng: Rng) -> str:
        return f"{rng.integers(1, 2**LAMPS):0{LAMPS}b}"

    def level_key(self, level: str) -> int:
        """Return a number that the rotations and reflections of a level share."""
        return grid_key(bytes(map(int, level)), SIDE, SIDE)

    def start(self, level: str) -> None:
        self.lamps = bytes(map(int, level))

    def play(self, action: int) -> tuple[float, bool, bool]:
        self.lamps = pressed(self.lamps, action)
        return float(self.success), self.success, True

    @property
    def success(self) -> bool:
        return not any(self.lamps)

    def observe(self) -> NDArray[np.int8]:
        return np.array(list(self.lamps), np.int8)

    def solution(self) -> tuple[int, ...]:
        return solution(self.lamps)


GAME = GameSpec("LightsOut", "lights_out:LightsOutEnv", "switch all lamps off", 100, namespace="mine")
register_game(GAME)
