"""A game added from outside: switch all lamps off, where each press also switches its neighbours."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, SupportsInt

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs import GameSpec, register_game
from ragen_envs.game.base import GameEnv, read_action
from ragen_envs.game.grids import BoardText
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.levels.keys import grid_key
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN

SIDE = 3
LAMPS = SIDE * SIDE
NAMES = tuple(f"{row}{column}" for row in "ABC" for column in "123")


def pressed(lamps: bytes, lamp: int) -> bytes:
    """Return the lamps (0 dark, 1 lit) after a press: the lamp and its neighbours change."""
    row, column = divmod(lamp, SIDE)
    return bytes(
        lit ^ (abs(i // SIDE - row) + abs(i % SIDE - column) <= 1) for i, lit in enumerate(lamps)
    )


def plans() -> Iterator[tuple[int, ...]]:
    """Yield every set of lamps, the smallest first; the order of presses does not matter."""
    for count in range(LAMPS + 1):
        yield from combinations(range(LAMPS), count)


@lru_cache(maxsize=512)
def solution(lamps: bytes) -> tuple[int, ...]:
    """Return the fewest presses that darken all lamps; on a board of 3x3 there always are some."""
    for plan in plans():
        state = lamps
        for lamp in plan:
            state = pressed(state, lamp)
        if not any(state):
            return plan
    raise AssertionError("every board of 3x3 can be solved")


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

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}
    text = LightsOutText()
    numbered = True
    distribution = "lights_out"

    def __init__(self, split: str = TRAIN, render_mode: str | None = None) -> None:
        super().__init__(split, render_mode)
        self.observation_space = spaces.MultiBinary(LAMPS)
        self.action_space = spaces.Discrete(LAMPS)

    def act(self, action: SupportsInt) -> tuple[float, bool, bool]:
        self.lamps = pressed(self.lamps, read_action(action, NAMES))
        done = not any(self.lamps)
        return float(done), done, True

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        left = as_budget(budget)
        plan = solution(self.lamps)
        value = float(len(plan) <= left.reach)
        return Advice(plan[: left.this_turn], value, value if plan else 0.0)

    def turn_value(self, actions: Sequence[int], budget: Budget) -> float:
        return self._value_without_chance(actions, budget)

    def level_key(self, level: str) -> int:
        """Return the key of a level, equal for its rotations and reflections."""
        return grid_key(bytes(map(int, level)), SIDE, SIDE)

    def draw_level(self, rng: Rng) -> str:
        return f"{rng.integers(1, 2**LAMPS):0{LAMPS}b}"

    def start(self, level: str) -> None:
        self.lamps = bytes(map(int, level))

    def observe(self) -> NDArray[np.int8]:
        return np.array(list(self.lamps), np.int8)

    def info(self, effective: bool) -> dict[str, Any]:
        done = not any(self.lamps)
        return {"success": done, "action_is_valid": True, "action_is_effective": effective}


GAME = GameSpec(
    "LightsOut", "lights_out:LightsOutEnv", None, "switch all lamps off", 100, namespace="mine"
)
register_game(GAME)
