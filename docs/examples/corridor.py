"""A game added from outside the suite: walk along a corridor to the coin."""

from collections.abc import Sequence
from typing import Any, ClassVar, SupportsInt

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs import GameSpec, register_game
from ragen_envs.game.base import GameEnv, read_action
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN

NAMES = ("Left", "Right")
CELLS = {"empty": "_", "coin": "C", "player": "P"}


class CorridorText:
    """The words of the game."""

    vocabularies: ClassVar = {"standard": CELLS}

    def rules(self, env: Any) -> str:
        return "You walk along a corridor. Reach the coin. Rewards: 1 at the coin, otherwise 0."

    def legend(self, symbols: Any) -> str:
        return ", ".join(f"{sign} {name}" for name, sign in symbols.items())

    def actions(self, env: Any) -> tuple[str, ...]:
        return NAMES

    def observation(self, env: Any, form: str, symbols: Any) -> str:
        if form != "grid":
            return f"player: {env.player}\ncoin: {env.coin}\nlength: {env.length}"
        cells = [symbols["empty"]] * env.length
        cells[env.coin] = symbols["coin"]
        cells[env.player] = symbols["player"]
        return "".join(cells)


class CorridorEnv(GameEnv[NDArray[np.int64]]):
    """Walk left (0) or right (1); the observation is (player, coin)."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}
    text = CorridorText()

    def __init__(
        self, length: int = 12, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode)
        self.length = length
        self.distribution = f"corridor-{length}"
        self.observation_space = spaces.MultiDiscrete([length, length])
        self.action_space = spaces.Discrete(2)

    def act(self, action: SupportsInt) -> tuple[float, bool, bool]:
        before = self.player
        change = 1 if read_action(action, NAMES) else -1
        self.player = min(max(before + change, 0), self.length - 1)
        done = self.player == self.coin
        return float(done), done, self.player != before

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        left = as_budget(budget)
        way = self.coin - self.player
        run = (int(way > 0),) * min(abs(way), left.this_turn)
        value = float(abs(way) <= left.reach)
        return Advice(run, value, value if way else 0.0)

    def turn_value(self, actions: Sequence[int], budget: Budget) -> float:
        return self._value_without_chance(actions, budget)

    def level_key(self, level: str) -> str:
        here, coin = map(int, level.split())
        return str(min((here, coin), (self.length - 1 - here, self.length - 1 - coin)))

    def draw_level(self, rng: Rng) -> str:
        here, coin = rng.sample(range(self.length), 2)
        return f"{here} {coin}"

    def start(self, level: str) -> None:
        self.player, self.coin = map(int, level.split())

    def observe(self) -> NDArray[np.int64]:
        return np.array([self.player, self.coin])

    def info(self, effective: bool) -> dict[str, Any]:
        success = self.player == self.coin
        return {"success": success, "action_is_valid": True, "action_is_effective": effective}


GAME = GameSpec(
    "Corridor", "corridor:CorridorEnv", None, "walk along a corridor to the coin", 100,
    conversation={"max_actions": 20}, namespace="mine",
)  # fmt: skip
register_game(GAME)
