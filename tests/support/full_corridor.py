"""A game with an oracle, a text face and an info of its own, in which tests break one part after another."""

from typing import Any

import numpy as np
from gymnasium import spaces

from ragen_envs import GameSpec, register_game
from ragen_envs.game import Advice, GameEnv
from ragen_envs.game.oracle import as_budget

NAMES = ("Left", "Right")
CELLS = {"empty": "_", "coin": "C", "player": "P"}


class CorridorText:
    """The words of the game."""

    vocabularies = {"standard": CELLS}

    def rules(self, env: Any) -> str:
        return "You walk along a corridor. Reach the coin. Rewards: 1 at the coin, otherwise 0."

    def legend(self, symbols) -> str:
        return ", ".join(f"{sign} {name}" for name, sign in symbols.items())

    def actions(self, env: Any) -> tuple[str, ...]:
        return NAMES

    def observation(self, env: Any, form: str, symbols) -> str:
        if form != "grid":
            return f"player: {env.player}\ncoin: {env.coin}\nlength: {env.length}"
        cells = [symbols["empty"]] * env.length
        cells[env.coin] = symbols["coin"]
        cells[env.player] = symbols["player"]
        return "".join(cells)


class CorridorEnv(GameEnv):
    """Walk left (0) or right (1); the observation is (player, coin)."""

    text = CorridorText()
    deterministic = True

    def __init__(self, length: int = 12, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(split, render_mode)
        self.length = length
        self.distribution = f"corridor-{length}"
        self.observation_space = spaces.MultiDiscrete([length, length])
        self.action_space = spaces.Discrete(2)

    @property
    def success(self) -> bool:
        return self.player == self.coin

    def play(self, action):
        before = self.player
        self.player = min(max(before + (1 if action else -1), 0), self.length - 1)
        done = self.player == self.coin
        return float(done), done, self.player != before

    def oracle(self, budget=None):
        left = as_budget(budget)
        way = self.coin - self.player
        run = (int(way > 0),) * min(abs(way), left.this_turn)
        value = float(abs(way) <= left.reach)
        return Advice(run, value, value if way else 0.0)

    def turn_value(self, actions, budget):
        return super().turn_value(actions, budget)

    def level_key(self, level: str) -> str:
        here, coin = map(int, level.split())
        return str(min((here, coin), (self.length - 1 - here, self.length - 1 - coin)))

    def draw_level(self, rng):
        here, coin = rng.sample(range(self.length), 2)
        return f"{here} {coin}"

    def start(self, level: str) -> None:
        self.player, self.coin = map(int, level.split())

    def observe(self):
        return np.array([self.player, self.coin])

    def info(self, effective: bool) -> dict[str, Any]:
        success = self.player == self.coin
        return {"success": success, "action_is_valid": True, "action_is_effective": effective}


GAME = GameSpec(
    "Corridor", "corridor:CorridorEnv", "walk along a corridor to the coin", 100,
    conversation={"max_actions": 20}, namespace="mine",
)  # fmt: skip
register_game(GAME)
