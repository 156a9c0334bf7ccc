"""Countdown as a Gymnasium environment."""

from typing import Any

from ragen_envs.game.arguments import Level, read_count
from ragen_envs.game.oracle import Budget, RandomBaseline, as_budget
from ragen_envs.game.word_game import Legality, WordGameEnv
from ragen_envs.games.countdown import dynamics, image, oracle, text
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN
from ragen_envs.pictures.drawing import Image

FEWEST, MOST = 3, 5
"""Bounds of the argument ``numbers``."""
LARGEST: int = 20
"""The given numbers are drawn from 1 to this."""
TARGETS: tuple[int, int] = (10, 100)
"""The least and the greatest target."""


class CountdownEnv(WordGameEnv):
    """Reach a target by calculating with given numbers.

    ## Description
    Each action calculates with two of the numbers, which are then replaced by the result. The game
    is won as soon as one of the numbers is the target, and lost when only another number is left.
    Transitions are deterministic.

    ## Action Space
    `FreeText(4096)`: an operation such as `8 * 7`, with one of + - * / (also −, x, ×, · and ÷) and two of
    the numbers that are left. The result must be a positive whole number. It may be included, as in
    `8 * 7 = 56`, if it is right.

    ## Observation Space
    `FreeText(131072)`: the target and the numbers that are left, in ascending order.

    ## Starting State
    `numbers` independent numbers from 1 to 20 and a target from 10 to 100, among the levels that
    have a solution and need at least two operations. The numbers decide the split.

    ## Rewards
    1 when the target is reached, otherwise 0.

    ## Episode End
    Terminates when the target is reached or one number is left; truncated by the time limit.

    ## Information
    `success` (bool): the target is among the numbers. `action_is_effective` (bool): the numbers
    changed.

    ## Arguments
    `numbers`: how many numbers are given, from 3 to 5. `level`: a fixed level of 2 to 6 numbers, such as
    "60: 3 7 8 25".

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    action_names = "a + b", "a - b", "a * b", "a / b"
    text = text.CountdownText()
    has_packs = True
    deterministic = True
    numbers: dynamics.Numbers
    """The numbers that are left, in ascending order."""
    target: int

    def __init__(
        self, numbers: int = 4, level: Level | None = None, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode, level)
        self.count = read_count("numbers", numbers, FEWEST, MOST)
        for own in self.own_levels:
            given = len(text.decode_level(own)[0])
            if FEWEST <= given <= MOST:
                self.count = given
        self.distribution = f"countdown-{self.count}"

    @property
    def success(self) -> bool:
        return self.target in self.numbers

    def legality(self, action: str) -> Legality:
        return dynamics.legality(self.numbers, action)

    def available(self) -> tuple[str, ...]:
        """Return every legal operation once, the larger number first."""
        return tuple(map(str, dynamics.operations(self.numbers)))

    def play(self, action: str) -> tuple[float, bool, bool]:
        operation = dynamics.read_operation(action)
        assert operation is not None
        self.numbers = dynamics.play(self.numbers, operation)
        return float(self.success), self.success or len(self.numbers) == 1, True

    def solution(self) -> tuple[str, ...] | None:
        plan = oracle.solution(self.numbers, self.target)
        return None if plan is None else tuple(map(str, plan))

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline:
        return oracle.random_baseline(self.numbers, self.target, as_budget(budget))

    def level_key(self, level: str) -> str:
        """Return the numbers of a level, whatever its target."""
        return f"countdown {text.decode_level(level)[0]}"

    def draw_level(self, rng: Rng) -> str:
        """Return a level that needs at least two operations."""
        low, high = TARGETS
        while True:
            numbers = tuple(sorted(rng.integers(1, LARGEST + 1) for _ in range(self.count)))
            target = rng.integers(low, high + 1)
            if (oracle.fewest(numbers, target) or 0) >= 2:
                return text.encode_level(numbers, target)

    def start(self, level: str) -> None:
        self.numbers, self.target = text.decode_level(level)

    def picture(self) -> Image:
        given, _ = text.decode_level(self.level)
        return image.render(self.numbers, self.target, len(given))
