"""Minesweeper 5x5 as a Gymnasium environment."""

from collections.abc import Sequence
from typing import Any

from ragen_envs.game.arguments import Level, read_count
from ragen_envs.game.oracle import Advice, Budget, as_budget
from ragen_envs.game.places import place_name
from ragen_envs.game.word_game import Legality, WordGameEnv
from ragen_envs.games.minesweeper import dynamics, image, oracle, text
from ragen_envs.games.minesweeper.dynamics import ALL, AROUND, CELLS, SIDE
from ragen_envs.levels.keys import grid_key
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN


class MinesweeperEnv(WordGameEnv):
    """Open every cell of a 5x5 board that has no mine.

    ## Description
    The board hides a known number of mines. An open cell shows how many of its neighbors have a mine;
    around a 0, all neighbors are opened too. Some boards cannot be won by reasoning alone: the oracle's
    value is the probability of winning over the boards that match the open cells, of which those with
    fewer cells without a neighboring mine are slightly more likely. Transitions are deterministic.

    ## Action Space
    `FreeText(4096)`: a cell such as `r2c3` (row 2, column 3, counted from 1 at the top left), or
    `open r2c3`. Opening an open cell does nothing.

    ## Observation Space
    `FreeText(131072)`: the board, one line per row: `#` closed, `0` to `8` open, `*` a mine, shown when
    the game is lost.

    ## Starting State
    Mines are uniformly random. The first cell is uniform among the cells without a neighboring mine.
    Boards that are won by opening this cell are drawn again. Levels with the same mines up to
    rotation and reflection count as one, wherever they begin: with three mines there are 310, which
    training can memorise.

    ## Rewards
    1 when all cells without a mine are open, otherwise 0.

    ## Episode End
    Terminates when all cells without a mine are open or a mine was opened; truncated by the time
    limit.

    ## Information
    `success` (bool): all cells without a mine are open. `action_is_effective` (bool): a cell was
    opened.

    ## Arguments
    `mines`: how many there are, from 1 to 4; with one, only training levels exist. `level`: a fixed
    board, given as five rows of five of `.*o`, where `o` is the first open cell.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    tile_set = image.TILES
    action_names = ("r<row>c<column>",)
    text = text.MinesweeperText()
    has_packs = True
    mined: dynamics.Cells
    """The cells with a mine, as bits."""
    opened: dynamics.Cells
    """The open cells, as bits."""

    def __init__(
        self, mines: int = 3, level: Level | None = None, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode, level)
        self.mines = read_count("mines", mines, 1, 4)
        for own in self.own_levels:
            self.mines = text.decode_level(own)[0].bit_count()
        self.distribution = f"minesweeper-{SIDE}x{SIDE}-{self.mines}"

    @property
    def success(self) -> bool:
        return ALL & ~self.opened == self.mined

    def legality(self, action: str) -> Legality:
        return dynamics.legality(action)

    def available(self) -> tuple[str, ...]:
        return tuple(place_name(cell, SIDE) for cell in dynamics.members(ALL & ~self.opened))

    def play(self, action: str) -> tuple[float, bool, bool]:
        cell = dynamics.cell_of(action)
        assert cell is not None
        if self.opened >> cell & 1:
            return 0.0, False, False
        if self.mined >> cell & 1:
            self.opened |= 1 << cell
            return 0.0, True, True
        self.opened |= dynamics.opened_by(self.mined, cell)
        return float(self.success), self.success, True

    def shown(self) -> bytes:
        """Return the cell codes to show, row by row, (25,)."""
        lost = bool(self.opened & self.mined)
        codes = bytearray(CELLS)
        for cell in range(CELLS):
            if self.mined >> cell & 1 and lost:
                codes[cell] = text.MINE
            elif self.opened >> cell & 1:
                codes[cell] = dynamics.number(self.mined, cell)
            else:
                codes[cell] = text.CLOSED
        return bytes(codes)

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the best cells to open, and the exact probability to win over all possible boards.

        The oracle knows what the player sees, not where the mines are.

        Raises:
            SolverLimitError: The limits of the budget may matter; only play that they do not cut short is
                computed.
        """
        cells, value = oracle.advise(self.mined, self.opened, as_budget(budget))
        names = tuple(place_name(cell, SIDE) for cell in cells)
        return Advice(names, value, 0.0 if self.success else value)

    def turn_value(self, actions: Sequence[str], budget: Budget) -> float | None:
        """Return the probability to win after a turn, over all boards that fit what is seen before it."""
        cells = [cell for cell in map(dynamics.cell_of, actions) if cell is not None]
        return oracle.value_after(self.mined, self.opened, cells, budget)

    def key(self, level: str) -> int:
        """Return the key of the mines up to symmetry, in [0, 2^63)."""
        mines, _ = text.decode_level(level)
        cells = bytes(mines >> cell & 1 for cell in range(CELLS))
        return grid_key(cells, SIDE, SIDE)

    def draw_level(self, rng: Rng) -> str:
        while True:
            left, mines = list(range(CELLS)), 0
            for _ in range(self.mines):
                mines |= 1 << left.pop(rng.integers(len(left)))
            starts = [cell for cell in left if not mines & AROUND[cell]]
            if not starts:
                continue
            first = rng.choice(starts)
            if ALL & ~dynamics.opened_by(mines, first) != mines:
                return text.encode_level(mines, first)

    def start(self, level: str) -> None:
        self.mined, first = text.decode_level(level)
        self.opened = dynamics.opened_by(self.mined, first)
