"""Define the race over the ice as a PettingZoo environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragen_envs.errors import RagenError
from ragen_envs.game.arguments import Level, read_choice, read_count, read_level, read_number
from ragen_envs.game.oracle import Advice
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, PLAYER, ways
from ragen_envs.games.frozen_lake.generator import map_key
from ragen_envs.games.frozen_lake.image import TILES
from ragen_envs.levels.seeding import jump, uniform
from ragen_envs.levels.splits import TRAIN
from ragen_envs.multi_agent.board import MultiAgentBoardEnv
from ragen_envs.multi_agent.games.frozen_lake_race import generator, oracle, text
from ragen_envs.multi_agent.games.frozen_lake_race.dynamics import (
    ACTION_NAMES,
    ALL,
    FINISHES,
    FIRST,
    STAY,
    direction_of,
    score,
    walk_all,
)  # fmt: skip

_OTHER = 3


class FrozenLakeRaceEnv(MultiAgentBoardEnv):
    """Several walkers on the ice, one goal: be first, or arrive together.

    ## Description
    FrozenLake with several walkers who move at the same time. A frozen tile holds only one walker:
    walkers who would enter the same tile, swap tiles, or enter the tile of a walker who stays do not
    move. No seat has priority. The goal and the holes hold any number of walkers. Each walker slips
    independently, but a walker who stays does not slip.

    ## Action Space
    `Discrete(5)`: 0 left, 1 down, 2 right, 3 up, 4 stay.

    ## Observation Space
    `Box(0, 8, (height, width), uint8)` of cell codes, as seen by the seat: 0 frozen, 1 hole, 2 goal; 3,
    4, 5 the seat's own walker on these; 6, 7, 8 another walker on these, if the own walker is
    elsewhere.

    ## Starting State
    A random map as in FrozenLake. All walkers start on different tiles that are equally far from the
    goal.

    ## Rewards
    `finish="first"`: 1 to the first at the goal, shared by those who arrive in the same round.
    `finish="all"`: 1 to each when the last one arrives.

    ## Episode End
    `finish="first"`: terminates for all walkers when one arrives, and for a walker who falls into a
    hole. `finish="all"`: terminates for all when all have arrived or one falls into a hole. Truncated
    after 20 rounds.

    ## Information
    `success` (bool): among the first at the goal, or all are there. `action_is_effective` (bool): the
    seat's last action moved it. `slipped` (bool): the ice turned it in another direction than
    intended, even if the seat could not move there. `rounds_left` (int).

    ## Oracle
    Exact for two players on up to 36 tiles, by backward induction over the rounds left.
    `finish="first"` is a zero-sum game in the difference of the rewards: `oracle(seat)` draws from an
    optimal mixed strategy, and its value is the expected points against the best opponent: 1 for a
    win and 1/2 for a draw, also when time runs out (when nobody is paid). Its `expected_return` is the
    seat's payment if both follow the oracle. `finish="all"`: a joint optimum; the value is the
    probability that all arrive.

    ## Arguments
    `size`: side of the square, from 3 to 16. `p`: probability of a frozen tile. `success_rate`:
    probability to move in the intended direction. `finish`: "first" or "all". `players`: 1 to 8.
    `level`: a fixed level in the text form of `instance.level`. `max_cycles`: number of rounds, 20 by
    default.

    ## Version History
    * v0: Initial version.
    """

    metadata = {**MultiAgentBoardEnv.metadata, "name": "frozen_lake_race_v0"}
    text = text.FrozenLakeRaceText()
    usual_rounds = 20
    names = ACTION_NAMES
    tiles: bytes
    """Tile codes of the map, (h*w,)."""
    positions: list[int]
    """The walkers' indices in ``tiles``, by seat."""

    def __init__(
        self,
        size: int = 4,
        p: float = 0.8,
        success_rate: float = 1 / 3,
        finish: str = FIRST,
        players: int = 2,
        level: Level | None = None,
        max_cycles: int | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        self.height = self.width = read_count("size", size, 3, 16)
        self.p = read_number("p", p, 0, 1)
        self.success_rate = read_number("success_rate", success_rate, 0, 1)
        self.finish = read_choice("finish", finish, FINISHES)
        self._fixed = None
        if level is not None:
            self._fixed, self.height, self.width = text.decode_level(read_level("level", level))
            players = len(self._fixed.starts)
        super().__init__(read_count("players", players, 1, 8), max_cycles, split, render_mode)
        self.distribution = f"frozen_lake_race-{self.height}x{self.width}-{self.p:g}-{self.players}"
        self._ways = ways(self.height, self.width)
        self._set_board_spaces()

    def oracle(self, seat: int) -> Advice:
        """Return an optimal action of a seat and what it is worth; see the class.

        Raises:
            RagenError: There are not two players, or the map is too large.
        """
        if self.players != 2:
            raise RagenError(f"the oracle is for 2 players, but there are {self.players}")
        best = oracle.optimum(
            self.tiles, self.height, self.width, self.success_rate, self.finish, self.rounds_left
        )
        state = self.positions[0] * len(self.tiles) + self.positions[1]
        value = float(best.values[state])
        if self.finish == FIRST:
            value = (1 + (value if seat == 0 else -value)) / 2
        chances = best.strategies[seat][state]
        if not chances.any():
            return Advice((STAY,), value, 0.0)
        draw = uniform(jump(self.rng.stream, seat + 1))
        action = int(np.searchsorted(np.cumsum(chances), draw * chances.sum(), side="right"))
        return Advice((min(action, STAY),), value, float(best.returns[seat, state]))

    def success(self, seat: int) -> bool:
        seats = range(self.players) if self.finish == ALL else (seat,)
        return all(self.tiles[self.positions[s]] == GOAL for s in seats)

    def cells_of(self, seat: int) -> bytearray:
        cells = bytearray(self.tiles)
        for position in self.positions:
            cells[position] = self.tiles[position] + PLAYER + _OTHER
        mine = self.positions[seat]
        cells[mine] = self.tiles[mine] + PLAYER
        return cells

    def key(self, level: str) -> int:
        """Return the key of a level in text form, equal up to symmetry and the starts on the same ice."""
        lake, height, width = text.decode_level(level)
        return map_key(lake.tiles, height, width, *lake.starts)

    def _start_fresh(self, split: str) -> None:
        lake = self._fixed or generator.generate(
            self.height, self.width, self.p, self.players, self.rng, split
        )
        self._lake = lake
        self.tiles = lake.tiles
        self.positions = list(lake.starts)
        self._slipped = [False] * self.players

    @property
    def level(self) -> str:
        return text.encode_level(self._lake, self.width)

    def play(self, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
        directions = [direction_of(action, self.success_rate, self.rng.random()) for action in actions]
        before = self.positions
        self.positions = walk_all(self.tiles, self._ways, before, directions)
        pairs = list(zip(before, self.positions, strict=True))
        self._moved = [here != after for here, after in pairs]
        self._slipped = [
            taken != action and self.tiles[here] == FROZEN
            for taken, action, (here, _) in zip(directions, actions, pairs, strict=True)
        ]
        return score(self.tiles, self.positions, self.finish)

    def info(self, seat: int) -> dict[str, Any]:
        return {**super().info(seat), "slipped": self._slipped[seat]}

    def picture(self) -> NDArray[np.uint8]:
        cells = bytearray(self.tiles)
        for position in self.positions:
            cells[position] = self.tiles[position] + PLAYER
        return self._draw_players(TILES, cells, self.positions)
