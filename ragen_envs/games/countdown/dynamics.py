"""The rules of Countdown: two numbers become one."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ragen_envs.game.word_game import LEGAL, Legality, illegal, quoted

Numbers = tuple[int, ...]
"""The numbers that are left, in ascending order."""

SIGNS: Final = "+-*/"
_NUMBER: Final = "[0-9]{1,36}"  # a product of six numbers of six digits has no more
_FORM: Final = re.compile(
    rf"\s*({_NUMBER})\s*([-+*/x×÷−·])\s*({_NUMBER})\s*(?:=\s*(-?{_NUMBER}(?:\.[0-9]+)?)\s*)?", re.IGNORECASE
)
_SIGNS: Final = {"x": "*", "×": "*", "·": "*", "÷": "/", "−": "-"}


class Operation(NamedTuple):
    """A parsed action."""

    left: int
    sign: str
    right: int
    claimed: str | None
    """Result that the action states, or None."""

    @property
    def result(self) -> int | None:
        """The result, or None if it is not a positive whole number."""
        left, sign, right, _ = self
        if sign == "/":
            return left // right if right and left % right == 0 else None
        result = {"+": left + right, "-": left - right, "*": left * right}[sign]
        return result if result > 0 else None

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


def read_operation(action: str) -> Operation | None:
    """Parse an action, or return None if it is no operation."""
    match = _FORM.fullmatch(action)
    if match is None:
        return None
    left, sign, right, claimed = match.groups()
    return Operation(int(left), _SIGNS.get(sign.lower(), sign), int(right), claimed)


def legality(numbers: Numbers, action: str) -> Legality:
    """Return whether an action may be played with the numbers that are left."""
    operation = read_operation(action)
    if operation is None:
        return illegal(f"{quoted(action)} does not have the form a + b, with one of + - * /")
    left, _, right, claimed = operation
    for number in (left, right):
        if number not in numbers:
            return illegal(f"{number} is not among the numbers")
    if left == right and numbers.count(left) < 2:
        return illegal(f"there is only one {left}")
    result = operation.result
    if result is None:
        return illegal(f"{operation} is not a positive whole number")
    if claimed is not None and claimed != str(result):
        return illegal(f"{operation} is {result}, not {claimed}")
    return LEGAL


def play(numbers: Numbers, operation: Operation) -> Numbers:
    """Return the numbers after a legal operation."""
    rest = list(numbers)
    rest.remove(operation.left)
    rest.remove(operation.right)
    result = operation.result
    assert result is not None
    return tuple(sorted([*rest, result]))


def operations(numbers: Sequence[int]) -> Iterator[Operation]:
    """Yield every legal operation on numbers in ascending order once; larger numbers come first."""
    seen = set()
    for i, small in enumerate(numbers):
        for large in numbers[i + 1 :]:
            if (small, large) in seen:
                continue
            seen.add((small, large))
            made = (Operation(large, sign, small, None) for sign in SIGNS)
            yield from (operation for operation in made if operation.result is not None)
