"""Countdown in words, and the text form of its levels."""

import re
from collections.abc import Sequence
from typing import Any, Final

from ragen_envs.errors import InstanceError
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import OwnText, Symbols
from ragen_envs.games.countdown.dynamics import Numbers, play, read_operation

_LEVEL: Final = re.compile(r"[0-9]{1,6}:( [0-9]{1,6}){2,6}")


class CountdownText(OwnText):
    """The text face of Countdown."""

    def rules(self, env: Any) -> str:
        return (
            "You are playing Countdown: reach the target by calculating with the given numbers. Each "
            "action takes two of the numbers, for example 8 * 7 or 9 - 4, and puts the result in their "
            "place, so every number is used at most once. Use +, -, * and /. Every result must be a "
            "positive whole number. You win as soon as one of the numbers is the target. The game ends "
            "when only one number is left. Rewards: 1 when the target is reached, 0 otherwise."
        )

    def observation(self, env: Any, form: str, symbols: Symbols) -> str:
        return f"Target: {env.target}\nNumbers: {' '.join(map(str, env.numbers))}"

    def explain(self, env: Any, actions: Sequence[str], budget: Budget) -> str:
        """Calculate each operation, and tell which numbers it leaves."""
        numbers, parts = env.numbers, [f"I need {env.target}."]
        for action in actions:
            operation = read_operation(action)
            assert operation is not None
            numbers = play(numbers, operation)
            left = " ".join(map(str, numbers))
            parts.append(f"{operation} = {operation.result}, which leaves {left}.")
        return " ".join(parts)


def encode_level(numbers: Numbers, target: int) -> str:
    """Return the text form of a level, such as ``60: 3 7 8 25``."""
    return f"{target}: {' '.join(map(str, numbers))}"


def decode_level(level: str) -> tuple[Numbers, int]:
    """Return the numbers, in ascending order, and the target of a level in text form.

    Raises:
        InstanceError: It is not of the form, or the target is among the numbers.
    """
    if _LEVEL.fullmatch(level) is None:
        raise InstanceError(f"level {level!r} must be a target and 2 to 6 numbers, such as '60: 3 7 8 25'")
    target, _, rest = level.partition(":")
    numbers = tuple(sorted(map(int, rest.split())))
    if int(target) in numbers or min(int(target), *numbers) == 0:
        raise InstanceError(
            f"level {level!r} must have positive numbers, and a target that is not one of them"
        )
    return numbers, int(target)
