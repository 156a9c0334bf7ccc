"""Define cooperative Sokoban as a PettingZoo environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragen_envs.game.arguments import Level, read_count, read_level
from ragen_envs.game.oracle import Advice
from ragen_envs.games.sokoban.dynamics import BOX, BOX_ON_TARGET
from ragen_envs.games.sokoban.image import TILES
from ragen_envs.games.sokoban.level_key import level_key
from ragen_envs.games.sokoban.text import open_targets
from ragen_envs.levels.splits import TRAIN
from ragen_envs.multi_agent.board import MultiAgentBoardEnv
from ragen_envs.multi_agent.games.sokoban_coop import generator, text
from ragen_envs.multi_agent.games.sokoban_coop.dynamics import ACTION_NAMES, STAY, play_round
from ragen_envs.multi_agent.games.sokoban_coop.oracle import Plan, joint_plan


class SokobanCoopEnv(MultiAgentBoardEnv):
    """Push every box onto a target together, in fewer rounds than a single player would need.

    ## Description
    Two or more movers on one Sokoban board. In each round all choose at the same time; then they move
    one after the other, `player_0` first. A mover can neither walk into another one nor push it, and a
    box moves only if the cell behind it is free. With one player, the game is Sokoban with the
    additional action Stay.

    ## Action Space
    `Discrete(5)`: 0 up, 1 down, 2 left, 3 right, 4 stay.

    ## Observation Space
    `Box(0, 8, (height, width), uint8)` of cell codes, each seat's own: 0 wall, 1 empty, 2 target, 3 box
    on target, 4 box, 5 the seat's own mover, 6 own mover on target, 7 another mover, 8 another mover on
    target.

    ## Starting State
    Sokoban's levels with more movers on random floor, kept only if the team needs fewer rounds than the
    best single mover would need moves without the others.

    ## Rewards
    The same for all: -0.1 for each round, +1 for a box pushed onto a target, -1 for a box pushed off
    one, +10 when all are on targets.

    ## Episode End
    Terminates for all when every box is on a target. Truncated after the level's budget, which is one
    round less than the best single mover's moves, so that only the team can solve it. With one player,
    it is as many rounds as the player needs.

    ## Information
    `success` (bool): all boxes are on targets. `action_is_effective` (bool): the seat's last action
    moved it. `boxes_on_target` (int). `rounds_left` (int).

    ## Oracle
    `oracle(seat)` is the seat's part of a joint plan with the fewest rounds, by breadth-first search;
    its value is 1 if the plan fits the rounds that are left, else 0. A search that would visit more than
    200,000 joint states raises `SolverLimitError`.

    ## Arguments
    `size`: side of the square, from 5 to 8. `boxes`: 1 to 4, at most 3 on 5x5. `players`: 1 to 4; with
    four on 8x8, it can take a minute to draw a level. `level`: a fixed level in the text form of
    `instance.level`; it has 24 rounds unless a search finds that a single player solves it in 24 moves and
    the team faster. With more boxes than targets, it is solved when every target has a box.
    `max_cycles`: number of rounds, instead of the level's.

    ## Version History
    * v0: Initial version.
    """

    metadata = {**MultiAgentBoardEnv.metadata, "name": "sokoban_coop_v0"}
    text = text.SokobanCoopText()
    names = ACTION_NAMES
    board: bytearray
    """Sokoban's present cell codes, (h*w,), with a player on every mover's cell."""
    movers: list[int]
    """The movers' present indices, by seat."""

    def __init__(
        self,
        size: int = 6,
        boxes: int = 2,
        players: int = 2,
        level: Level | None = None,
        max_cycles: int | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        self._fixed = None if level is None else text.decode_level(read_level("level", level))
        self.height = self.width = read_count("size", size, 5, 8)
        boxes = read_count("boxes", boxes, 1, 4)
        if self._fixed is not None:
            board, movers, self.width = self._fixed
            self.height, players = len(board) // self.width, len(movers)
            boxes = board.count(BOX) + board.count(BOX_ON_TARGET)
        super().__init__(read_count("players", players, 1, 4), max_cycles, split, render_mode)
        self.boxes = boxes
        self.distribution = f"sokoban_coop-{self.height}x{self.width}-{boxes}-{self.players}"
        self._set_board_spaces()

    def oracle(self, seat: int) -> Advice:
        plan = self._plan_from_here()
        if self._left == 0:
            return Advice((STAY,), 1.0, 0.0)
        if plan is None or len(plan) > self.rounds_left:
            waiting = ((STAY,) * self.players,) * self.rounds_left
            return Advice((STAY,), 0.0, self._return_of(waiting))
        return Advice((plan[0][seat],), 1.0, self._return_of(plan))

    def success(self, seat: int) -> bool:
        return self._left == 0

    def cells_of(self, seat: int) -> bytearray:
        cells = bytearray(self.board)
        for other, cell in enumerate(self.movers):
            if other != seat:
                cells[cell] += text.OTHER
        return cells

    def key(self, level: str) -> int:
        """Return the key of a level in text form, equal up to symmetry and the order of the seats."""
        board, _, width = text.decode_level(level)
        return level_key(board, len(board) // width, width)

    def _plan_from_here(self) -> Plan | None:
        """Return the shortest joint plan, found once for the states along it."""
        here = bytes(self.board), tuple(self.movers)
        if here not in self._plans:
            plan = joint_plan(*here, self.width, self.rounds_left)
            if plan is None:
                return None
            board, movers = bytearray(self.board), list(self.movers)
            for number, actions in enumerate(plan):
                self._plans[bytes(board), tuple(movers)] = plan[number:]
                play_round(board, movers, actions, self.width, open_targets(board))
        return self._plans.get(here, ())

    def _return_of(self, plan: Plan) -> float:
        board, movers = bytearray(self.board), list(self.movers)
        rewards = [play_round(board, movers, actions, self.width, open_targets(board))[2] for actions in plan]
        return sum(rewards, 0.0)

    def _start_fresh(self, split: str) -> None:
        if self._fixed is None:
            level, self.rng.stream = generator.generate(
                self.height, self.width, self.boxes, self.players, self.rng.stream, split
            )
        else:
            board, movers, _ = self._fixed
            rounds = generator.budget(bytes(board), movers, self.width)
            level = generator.Level(bytes(board), movers, rounds or generator.MAX_ALONE)
        self._initial, self.usual_rounds = level, level.rounds
        self.board = bytearray(level.board)
        self.movers = list(level.movers)
        self._left = open_targets(self.board)
        self.targets = self._left + self.board.count(BOX_ON_TARGET)
        self._plans: dict[tuple[bytes, tuple[int, ...]], Plan] = {}

    @property
    def level(self) -> str:
        return text.encode_level(self._initial.board, self._initial.movers, self.width)

    def play(self, actions: Sequence[int]) -> tuple[list[float], list[bool]]:
        self._moved, self._left, reward = play_round(self.board, self.movers, actions, self.width, self._left)
        return [reward] * self.players, [self._left == 0] * self.players

    def info(self, seat: int) -> dict[str, Any]:
        return {**super().info(seat), "boxes_on_target": self.targets - self._left}

    def picture(self) -> NDArray[np.uint8]:
        return self._draw_players(TILES, self.board, self.movers)
