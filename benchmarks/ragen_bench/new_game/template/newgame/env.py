"""NewGame as a Gymnasium environment."""

from collections.abc import Sequence
from typing import Any, SupportsInt

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from newgame.dynamics import ACTION_NAMES, step
from newgame.text import NewGameText
from ragen_envs.game.arguments import read_count
from ragen_envs.game.base import GameEnv, read_action
from ragen_envs.game.errors import InstanceError
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN


class NewGameEnv(GameEnv[NDArray[np.int64]]):
    """Walk along a corridor to the coin.

    ## Description
    A player and a coin in a corridor. Deterministic.

    ## Action Space
    `Discrete(2)`: 0 left, 1 right. Walking into an end changes nothing.

    ## Observation Space
    `MultiDiscrete([length, length])`: the cells of the player and of the coin, counted from 0.

    ## Starting State
    Two different cells.

    ## Rewards
    1 at the coin, else 0.

    ## Episode End
    Terminates at the coin; truncated by the registered time limit.

    ## Information
    `success` (bool): at the coin. `action_is_valid` (bool): always True here. `action_is_effective`
    (bool): the last action moved the player.

    ## Arguments
    `length`: number of cells, at least 3. `split`: "train", "validation" or "test", until a reset asks
    for another. `render_mode`: "ansi".

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
    text = NewGameText()
    numbered = True
    player: int
    coin: int

    def __init__(
        self, length: int = 12, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode)
        self.length = read_count("length", length, 3)
        self.distribution = f"newgame-{length}"
        self.observation_space = spaces.MultiDiscrete([length, length])
        self.action_space = spaces.Discrete(len(ACTION_NAMES))

    def act(self, action: SupportsInt) -> tuple[float, bool, bool]:
        """Play one action; see the base."""
        before = self.player
        number = read_action(action, ACTION_NAMES)
        self.player, reward, ended = step(before, self.coin, self.length, number)
        return reward, ended, self.player != before

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the way to the coin; value is 1 if it fits the budget, else 0."""
        left = as_budget(budget)
        way = self.coin - self.player
        run = (int(way > 0),) * min(abs(way), left.actions_per_turn, left.actions)
        value = float(abs(way) <= left.reach)
        return Advice(run, value, value if way else 0.0)

    def turn_value(self, actions: Sequence[int], budget: Budget) -> float:
        """Return what is left of the chance of success after a turn; the game has no chance."""
        return self._value_without_chance(actions, budget)

    def level_key(self, level: str) -> str:
        """Return the smaller of a level and its mirror image."""
        player, coin = _decode(level)
        return str(min((player, coin), (self.length - 1 - player, self.length - 1 - coin)))

    def draw_level(self, rng: Rng) -> str:
        """Return two different cells."""
        player, coin = rng.sample(range(self.length), 2)
        return f"{player} {coin}"

    def start(self, level: str) -> None:
        """Set the state to a level in text form."""
        self.player, self.coin = _decode(level)

    def observe(self) -> NDArray[np.int64]:
        return np.array([self.player, self.coin])

    def info(self, effective: bool) -> dict[str, Any]:
        success = self.player == self.coin
        return {"success": success, "action_is_valid": True, "action_is_effective": effective}


def _decode(level: str) -> tuple[int, int]:
    """Return the cells of player and coin of a level in text form."""
    try:
        player, coin = (int(number) for number in level.split())
    except ValueError:
        raise InstanceError(
            f"level {level!r} must be two cells, the player's and the coin's"
        ) from None
    return player, coin
