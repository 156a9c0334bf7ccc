"""Mastermind as a Gymnasium environment."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragen_envs.game.arguments import Level
from ragen_envs.game.oracle import Advice, Budget, RandomBaseline, as_budget
from ragen_envs.game.word_game import Legality, WordGameEnv
from ragen_envs.games.mastermind import dynamics, image, oracle, text
from ragen_envs.levels.seeding import Rng
from ragen_envs.levels.splits import TRAIN
from ragen_envs.pictures.drawing import Image


class MastermindEnv(WordGameEnv):
    """Find a hidden code of four pegs in six colors.

    ## Description
    Each guess is answered with the number of pegs that are right in color and place, and the number
    of others that have a right color in the wrong place. The oracle needs at most five guesses, and
    4.34 on average, the minimum with at most five each (Koyama and Lai 1993). Transitions are
    deterministic.

    ## Action Space
    `FreeText(4096)`: a guess such as `R R G B`, four of the letters R (red), G (green), B (blue), Y
    (yellow), O (orange) and P (purple); spaces and case do not matter.

    ## Observation Space
    `FreeText(131072)`: the guesses so far, each with its answer.

    ## Starting State
    A uniform code. There are 1,296, and each belongs to one split.

    ## Rewards
    1 when the code is found, otherwise 0.

    ## Episode End
    Terminates when the code is found; truncated by the registered time limit of 10 guesses.

    ## Information
    `success` (bool): the code was found. `action_is_effective` (bool): a guess was answered.

    ## Arguments
    `level`: a fixed code, such as "RRGB".

    ## Version History
    * v0: Initial version.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
    action_names = (f"four of the letters {' '.join(dynamics.COLORS)}",)
    text = text.MastermindText()
    has_packs = True
    distribution = "mastermind-4-6"
    code: str
    """The hidden code."""
    guesses: tuple[tuple[str, dynamics.Answer], ...]
    """The guesses so far and their answers."""

    def __init__(
        self, level: Level | None = None, split: str = TRAIN, render_mode: str | None = None
    ) -> None:
        super().__init__(split, render_mode, level)
        for own in self.own_levels:
            text.decode_level(own)

    @property
    def success(self) -> bool:
        return bool(self.guesses) and self.guesses[-1][1] == dynamics.SOLVED

    def legality(self, action: str) -> Legality:
        return dynamics.legality(action)

    def available(self) -> tuple[str, ...]:
        return tuple(map(" ".join, dynamics.CODES))

    def play(self, action: str) -> tuple[float, bool, bool]:
        guess = dynamics.read_code(action)
        assert guess is not None
        self.guesses = (*self.guesses, (guess, dynamics.answer_to(guess, self.code)))
        return float(self.success), self.success, True

    def oracle(self, budget: Budget | int | None = None) -> Advice:
        """Return the best guess, and the exact probability to find the code over all that are possible.

        The oracle knows the answers, not the code. It guesses once a turn.

        Raises:
            SolverLimitError: The search takes too long, or more than one guess a turn may matter.
        """
        return oracle.advise(self.guesses, self.success, as_budget(budget))

    def random_baseline(self, budget: Budget | int | None = None) -> RandomBaseline:
        if self.success:
            return RandomBaseline(1.0, 0.0)
        chance = 1 - (1 - 1 / len(dynamics.CODES)) ** as_budget(budget).reach
        return RandomBaseline(chance, chance)

    def turn_value(self, actions: Sequence[str], budget: Budget) -> float | None:
        """Return the probability to find the code after some guesses, over all that are possible before."""
        guesses = [code for code in map(dynamics.read_code, actions) if code is not None]
        return oracle.value_after(self.guesses, guesses, budget)

    def level_key(self, level: str) -> str:
        return f"mastermind {text.decode_level(level)}"

    def draw_level(self, rng: Rng) -> str:
        return rng.choice(dynamics.CODES)

    def start(self, level: str) -> None:
        self.code = text.decode_level(level)
        self.guesses = ()

    def random_action(self, rng: np.random.Generator) -> str:
        return " ".join(dynamics.CODES[int(rng.integers(len(dynamics.CODES)))])

    def picture(self) -> Image:
        return image.render(self.guesses)
