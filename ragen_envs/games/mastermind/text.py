"""Mastermind in words: rules, the guesses so far, and the text form of levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragen_envs.errors import InstanceError
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import OwnText, Symbols
from ragen_envs.games.mastermind.dynamics import CODES, COLORS, NUMBERS, answers, read_code
from ragen_envs.games.mastermind.oracle import remaining


class MastermindText(OwnText):
    """The text face of Mastermind."""

    def rules(self, env: Any) -> str:
        colors = ", ".join(f"{letter} ({name})" for letter, name in COLORS.items())
        return (
            "You are playing Mastermind: find the hidden code of four pegs. Each peg has one of six "
            f"colors: {colors}. A color may occur several times. Each action guesses the code, for "
            "example R R G B. Every guess is answered with how many of its pegs are right (color and "
            "place), and how many others have a right color in the wrong place. The game ends when a "
            "guess is the code. Rewards: 1 for finding the code, 0 otherwise."
        )

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        lines = [
            f"{number}. {' '.join(guess)}: {right} right, {misplaced} in the wrong place"
            for number, (guess, (right, misplaced)) in enumerate(env.guesses, 1)
        ]
        return "\n".join(["Guesses so far:", *lines]) if lines else "No guesses so far."

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:
        """State how many codes agree with the answers, and whether the guess is one of them."""
        left = remaining(env.guesses)
        guess = read_code(actions[0])
        assert guess is not None
        fits = guess in (CODES[number] for number in left)
        if len(left) == 1:
            return f"Only {' '.join(CODES[left[0]])} agrees with all answers."
        tells_more = len(np.unique(answers()[NUMBERS[guess], left])) > 1
        use = "but its answer tells more" if tells_more else "and its answer tells nothing new"
        kind = "is one of them" if fits else f"is not one of them, {use}"
        return f"{len(left)} codes agree with all answers. {' '.join(guess)} {kind}."


def decode_level(level: str) -> str:
    """Return the code of a level in text form, such as ``RRGB``.

    Raises:
        InstanceError: It is not four of the letters of the colors.
    """
    code = read_code(level)
    if code is None or code != level:
        raise InstanceError(f"level {level!r} must be four of the letters {''.join(COLORS)}")
    return code
