"""The frozen instances of the bandits."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from ragen_envs.games.bandit.generator import arm_names
from ragen_envs.games.packs import Recipe, Row
from ragen_envs.levels.seeding import advance, below, new_stream

_Item = TypeVar("_Item")


def rows(split: str) -> Iterator[Row]:
    """Yield every pair of the split once, so that each prefix is like the whole.

    Pairs come in rounds. A round holds each name once, in an order of its own; the next one pairs
    the same names otherwise. Of every two rows, one shows the safe-sounding name first.
    """
    names = arm_names()[split]
    stream = new_stream(split, "pack bandit", 0)
    safe, stream = _shuffled(names.safe, stream)
    risky, stream = _shuffled(names.risky, stream)
    count = len(safe)
    shifts, stream = _shuffled(range(count), stream)
    number, swapped = 0, 0
    for shift in shifts:
        order, stream = _shuffled(range(count), stream)
        for i in order:
            pair = safe[i], risky[(i + shift) % count]
            if number % 2 == 0:
                stream = advance(stream)
                swapped = below(stream, 2)
            else:
                swapped = 1 - swapped
            yield {"level": "/".join(pair[::-1] if swapped else pair), "chance": 0.5}
            number += 1


def _shuffled(items: Sequence[_Item], stream: int) -> tuple[list[_Item], int]:
    """Return the items in a random order and the advanced stream."""
    shuffled = list(items)
    for last in range(len(shuffled) - 1, 0, -1):
        stream = advance(stream)
        other = below(stream, last + 1)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return shuffled, stream


PACKS: Final[dict[str, Recipe]] = {"bandit": rows}
