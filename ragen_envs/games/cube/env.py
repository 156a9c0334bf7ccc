"""The pocket cube as a Gymnasium environment."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.game.arguments import Level, read_count
from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Budget, RandomBaseline, as_budget
from ragen_envs.games.cube import generator, image, oracle, text
from ragen_envs.games.cube.dynamics import ACTION_NAMES, COLORS, is_solved, turned
from ragen_envs.games.cube.symmetry import cube_key
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN

MAX_SCRAMBLE = 100


class CubeEnv(GameEnv[NDArray[np.int64]]):
    """Turn the 2x2x2 pocket cube until every face shows a single color.

    ## Description
    The cube is scrambled by a few random quarter turns. Its right, up and front layers can be
    turned; the down-back-left corner never moves. There are 3,674,160 arrangements, and the hardest
    need 14 turns. Transitions are deterministic.

    ## Action Space
    `Discrete(6)`: 0 R+, 1 R-, 2 U+, 3 U-, 4 F+, 5 F-. R, U and F turn the right, up and front layer a
    quarter turn: + clockwise, - counterclockwise, as seen when looking straight at that face.

    ## Observation Space
    `MultiDiscrete([6] * 24)`: the color of each sticker, 0 white, 1 orange, 2 green, 3 red, 4 blue,
    5 yellow. The faces come in the order up, left, front, right, back, down, with four stickers each,
    row by row as in the unfolded cube below.

    ## Starting State
    The solved cube after `scramble` random quarter turns, none of which undoes the one before.
    Cubes that differ only by rotation, reflection or a renaming of colors count as one level. A
    short scramble yields few levels: 20 with 4 turns, 237 with 6. Fresh levels are weighted by the
    number of scrambles that lead to them, while the packs hold every level once.

    ## Rewards
    1 when the cube is solved, otherwise 0.

    ## Episode End
    Terminates when the cube is solved; truncated by the time limit.

    ## Information
    `success` (bool): every face shows a single color. `action_is_effective` (bool): a layer was turned.

    ## Arguments
    `scramble`: number of quarter turns that scramble the cube, from 1 to 100; with fewer than 4, some
    splits have no level. With the default of 8, the 10 actions of a conversation leave room for one wrong
    turn. `level`: a fixed cube, given as six faces of four letters from `WOGRBY`.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    tile_set = image.TILES
    action_names = ACTION_NAMES
    text = text.CubeText()
    has_packs = True
    deterministic = True
    state: bytes
    """The color codes of the 24 stickers, see ``ragen_envs.games.cube.dynamics``."""

    def __init__(
        self,
        scramble: int = 8,
        level: Level | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode, level)
        self.scramble = read_count("scramble", scramble, 1, MAX_SCRAMBLE)
        for own in self.own_levels:
            text.decode_level(own)
        self.distribution = f"cube-{scramble}"
        self.observation_space = spaces.MultiDiscrete([len(COLORS)] * 24)

    @property
    def success(self) -> bool:
        return is_solved(self.state)

    def play(self, action: int) -> tuple[float, bool, bool]:
        self.state = turned(self.state, action)
        return float(self.success), self.success, True

    def solution(self) -> tuple[int, ...]:
        return oracle.solution(self.state)

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline | None:
        """Return the value of random turns; None for more than 14 turns."""
        return oracle.random_baseline(self.state, as_budget(budget))

    def key(self, level: str) -> int:
        return cube_key(text.decode_level(level))

    def draw_level(self, rng: Rng) -> str:
        """Return a scrambled cube that is not solved again."""
        while is_solved(state := generator.scrambled(self.scramble, rng)):
            pass
        return text.encode_level(state)

    def start(self, level: str) -> None:
        self.state = text.decode_level(level)

    def observe(self) -> NDArray[np.int64]:
        return np.frombuffer(self.state, np.uint8).astype(np.int64)
