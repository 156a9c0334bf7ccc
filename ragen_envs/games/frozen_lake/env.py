"""FrozenLake as a Gymnasium environment."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, SupportsInt

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ragen_envs.game.arguments import read_number, read_rows, read_sides
from ragen_envs.game.base import GameEnv, read_action
from ragen_envs.game.oracle import Advice, Budget, RandomBaseline, as_budget
from ragen_envs.games.frozen_lake import dynamics, generator, oracle, text
from ragen_envs.games.frozen_lake.moves import INITIAL_INFOS, Infos, moves
from ragen_envs.levels.seeding import advanced, uniform
from ragen_envs.levels.splits import TRAIN

if TYPE_CHECKING:
    from ragen_envs.pictures.tiles import TileSet

_UINT8 = np.dtype(np.uint8)
_BLOCK: Final = 128
"""Draws that are made at once."""
_NO_STREAMS: Final = np.zeros(0, np.int64)


class FrozenLakeEnv(GameEnv[NDArray[np.uint8]]):
    """Cross the ice to the goal without falling into a hole.

    ## Description
    On slippery ice the player moves in the intended direction with probability `success_rate` (1/3 in
    the paper), and otherwise to either side of it with equal probability, as in Gymnasium's FrozenLake.
    Unlike in Gymnasium, map, start and goal are random.

    ## Action Space
    `Discrete(4)`, as in Gymnasium: 0 left, 1 down, 2 right, 3 up. Walking off the edge stays in place.

    ## Observation Space
    `Box(0, 5, (height, width), uint8)` of cell codes: 0 frozen, 1 hole, 2 goal, 3 player, 4 player in
    hole, 5 player on goal.

    ## Starting State
    Start and goal are drawn uniformly, and every other tile is frozen with probability `p`. Maps
    without a path are drawn again. The slips of a frozen map are a fixed draw; the option `noise` of
    `reset` chooses another one. Maps that differ only in tiles that cannot be reached count as
    different: 24 of the 1,024 frozen test maps have such a twin among the training maps.

    ## Rewards
    1 at the goal, else 0.

    ## Episode End
    Terminates at the goal and in a hole; truncated by the time limit.

    ## Information
    `success` (bool): at the goal. `action_is_valid` (bool): always True here. `action_is_effective`
    (bool): the last action moved the player; False after reset. `slipped` (bool): the ice turned the
    last action in another direction than intended, even if the player could not move there.

    ## Arguments
    `size`: side of the square, or (height, width), each from 2 to 16. `p`: probability of a frozen
    tile. `success_rate`: probability to move in the intended direction; 1 means no slipping.
    `level`: a fixed map as rows of `_OGP` or of Gymnasium's `SFHG`.

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    text = text.FrozenLakeText()
    tiles: bytearray = bytearray()
    """Tile codes of the map, row-major; never changed in place."""
    position: int
    """The player's index in ``tiles``."""
    _seen: list[Callable[[], NDArray[np.uint8]] | None]
    """What returns a fresh observation, by position, where the player has been on this map."""
    _infos: Infos

    def __init__(
        self,
        size: int | Sequence[int] = 4,
        p: float = 0.8,
        success_rate: float = 1 / 3,
        level: Sequence[str] | None = None,
        split: str = TRAIN,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split, render_mode)
        self.height, self.width = read_sides("size", size, 2, text.MAX_SIDE)
        self.p = read_number("p", p, 0, 1)
        self.success_rate = read_number("success_rate", success_rate, 0, 1)
        self._fixed = read_rows(level)
        if self._fixed is not None:
            tiles, self.height, self.width, start = text.decode_level(self._fixed)
            self._fixed_start = tiles, start
        self.distribution = f"frozen_lake-{self.height}x{self.width}-{self.p:g}"
        self._shape = (self.height, self.width)
        self.observation_space = spaces.Box(0, dynamics.PLAYER_ON_GOAL, self._shape, np.uint8)
        self.action_space = spaces.Discrete(4)
        self._moves = moves(self.height, self.width)
        self._streams, self._turns = _NO_STREAMS, list[int]()

    def act(self, action: SupportsInt) -> tuple[float, bool, bool]:
        """Play one action, an integer from 0 to 3; see the base."""
        if self._over:
            raise self._reset_needed()
        if type(action) is not int or not 0 <= action < 4:
            action = read_action(action, dynamics.ACTION_NAMES)
        turned = (self._turns or self._draw_turns()).pop()
        position, arrivals = self._moves[16 * self.position + 4 * turned + action]
        self.position = position
        self._over, result, self._infos = arrivals[self.tiles[position]]
        return result

    def _draw_turns(self) -> list[int]:
        """Draw what the ice does in the next actions, many at once, and return it in reverse order."""
        stream = self._reached()
        assert stream is not None
        self._streams = advanced(stream, _BLOCK)
        if self.success_rate == 1:  # no draw reaches it
            self._turns = [0] * _BLOCK
            return self._turns
        turns: Any = dynamics.turned(self.success_rate, uniform(self._streams))  # type: ignore[arg-type]
        self._turns = turns[::-1].tolist()
        return self._turns

    def _reached(self) -> int | None:
        """Return the stream after the last action that was played."""
        played = len(self._streams) - len(self._turns)
        return self._streams.item(played - 1) if played else self._stream

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Start an episode; see the base."""
        self._stream = reached = self._reached()
        found = super().reset(seed=seed, options=options)
        if self._stream != reached:
            self._streams, self._turns = _NO_STREAMS, []
        return found

    @classmethod
    def tile_set(cls) -> "TileSet":
        """Return the pictures of the cell codes, in their order."""
        from ragen_envs.games.frozen_lake import image

        return image.TILES

    @property
    def cells(self) -> bytearray:
        """The present cell codes, (h*w,), row-major, a copy."""
        cells = bytearray(self.tiles)
        cells[self.position] += dynamics.PLAYER
        return cells

    @property
    def board(self) -> NDArray[np.uint8]:
        """The present cell codes, (height, width), a copy."""
        return self.observe()

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the best run of actions and the largest probability to reach the goal."""
        return oracle.advise(
            bytes(self.tiles), self.height, self.width, self.success_rate, self.position,
            as_budget(budget),
        )  # fmt: skip

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline:
        """Return what random actions are worth; the return is the probability to reach the goal."""
        return oracle.random_baseline(
            bytes(self.tiles), self.height, self.width, self.success_rate, self.position,
            as_budget(budget),
        )  # fmt: skip

    def turn_value(self, actions: Sequence[int], budget: Budget) -> float:
        """Return the largest probability to reach the goal after a turn, over where it may slip."""
        directions = [read_action(action, dynamics.ACTION_NAMES) for action in actions]
        return oracle.turn_value(
            bytes(self.tiles), self.height, self.width, self.success_rate, self.position,
            directions, budget,
        )  # fmt: skip

    def key(self, level: str) -> int:
        """Return the key of a level in text form, in [0, 2^63)."""
        return generator.map_key(*text.decode_level(level))

    def _start_fresh(self, stream: int, split: str) -> int:
        if self._fixed is not None:
            self._start(*self._fixed_start)
            return stream
        tiles, start, stream = generator.generate(self.height, self.width, self.p, stream, split)
        self._start(tiles, start)
        return stream

    def start(self, level: str) -> None:
        """Set the state to a level in text form."""
        tiles, _, _, start = text.decode_level(level)
        self._start(tiles, start)

    def _start(self, tiles: bytearray, start: int) -> None:
        if tiles is not self.tiles:
            self.tiles = tiles
            self._seen = [None] * len(tiles)
        self._initial_position = self.position = start
        self._infos = INITIAL_INFOS

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the moves, of which no copy is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "_moves"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a state."""
        self.__dict__.update(state)
        self._moves = moves(self.height, self.width)

    @property
    def level(self) -> str:
        """The initial level of this episode in text form."""
        return text.encode_level(self.tiles, self.width, self._initial_position)

    def observe(self) -> NDArray[np.uint8]:
        """Return the observation; see the base."""
        return (self._seen[self.position] or self._look())()

    def _look(self) -> Callable[[], NDArray[np.uint8]]:
        seen: NDArray[np.uint8] = np.ndarray(self._shape, _UINT8, self.cells)
        self._seen[self.position] = seen.copy
        return seen.copy

    def info(self, effective: bool) -> dict[str, Any]:
        """Return the info; see the class."""
        return self._infos[effective]()

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let subclasses with other moves read success off the map, not off the last move."""
        super().__init_subclass__(**keywords)
        if cls.act is not FrozenLakeEnv.act and cls.info is FrozenLakeEnv.info:
            cls.info = cls._info_of_place  # type: ignore[method-assign]

    def _info_of_place(self, effective: bool) -> dict[str, Any]:
        success = self.tiles[self.position] == dynamics.GOAL
        return {**self._infos[effective](), "success": success}

    def picture(self) -> NDArray[np.uint8]:
        """Draw the state."""
        return self.tile_set().render(self.observe())
