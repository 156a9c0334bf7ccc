"""Sudoku 4x4 as a Gymnasium environment."""

from typing import Any

from ragen_envs.game.arguments import Level, read_count
from ragen_envs.game.word_game import Legality, WordGameEnv
from ragen_envs.games.sudoku import dynamics, image, text
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN

MOST_CLUES: int = 12
"""Puzzles with more are not drawn."""


class SudokuEnv(WordGameEnv):
    """Fill a 4x4 grid so that every row, column and box holds the digits 1 to 4 once.

    ## Description
    Some cells are given, and there is exactly one solution. Digits cannot be removed, so a wrong
    one makes the puzzle unsolvable. Transitions are deterministic.

    ## Action Space
    `FreeText(4096)`: a placement such as `r1c2 = 3` (row 1, column 2, counted from 1 at the top
    left). It is legal if the cell is empty and the digit, from 1 to 4, is not in its row, column or
    box.

    ## Observation Space
    `FreeText(131072)`: the grid, one line per row, with `_` for empty cells.

    ## Starting State
    A uniform filled grid, from which cells are removed in random order as long as the solution
    stays unique, until `clues` are left. Puzzles that are equal up to the symmetries of the grid
    and the names of the digits count as one level: with six clues there are fewer than 400, which
    training can memorise.

    ## Rewards
    1 when the grid is solved, otherwise 0.

    ## Episode End
    Terminates when the grid is solved or no digit can be placed any more; truncated by the time
    limit.

    ## Information
    `success` (bool): the grid is solved. `action_is_effective` (bool): the grid changed.

    ## Arguments
    `clues`: how many cells are given, from 5 to 12. `level`: a fixed puzzle, given as four rows of
    four of `_1234`.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    tile_set = image.TILES
    action_names = ("r<row>c<column> = <digit>",)
    text = text.SudokuText()
    has_packs = True
    deterministic = True
    grid: dynamics.Grid
    """The digit of each cell, row by row; 0 where it is empty."""

    def __init__(
        self, clues: int = 6, level: Level | None = None, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode, level)
        self.clues = read_count("clues", clues, dynamics.FEWEST_CLUES, MOST_CLUES)
        for own in self.own_levels:
            given = dynamics.CELLS - text.decode_level(own).count(dynamics.EMPTY)
            if dynamics.FEWEST_CLUES <= given <= MOST_CLUES:
                self.clues = given
        self.distribution = f"sudoku-{self.clues}"

    @property
    def success(self) -> bool:
        """Whether the grid is full, and so solved: no action breaks a rule."""
        return 0 not in self.grid

    def legality(self, action: str) -> Legality:
        return dynamics.legality(self.grid, action)

    def available(self) -> tuple[str, ...]:
        """Return every legal placement, cell by cell."""
        return tuple(
            str(dynamics.Placement(cell, digit))
            for cell in dynamics.empty_cells(self.grid)
            for digit in dynamics.candidates(self.grid, cell)
        )

    def play(self, action: str) -> tuple[float, bool, bool]:
        placement = dynamics.read_placement(action)
        assert placement is not None
        self.grid = dynamics.placed(self.grid, placement)
        return float(self.success), self.success or not self.available(), True

    def solution(self) -> tuple[str, ...] | None:
        """Return the placements that are left, those first that follow from what is there; None if lost."""
        plan = dynamics.plan(self.grid)
        return None if plan is None else tuple(map(str, plan))

    def level_key(self, level: str) -> str:
        """Return the puzzle that stands for all that are equal up to symmetry."""
        puzzle = dynamics.canonical(text.decode_level(level))
        return "sudoku " + "".join(map(str, puzzle))

    def draw_level(self, rng: Rng) -> str:
        return text.encode_level(dynamics.generate(self.clues, rng))

    def start(self, level: str) -> None:
        self.grid = text.decode_level(level)
