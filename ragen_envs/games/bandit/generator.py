"""Bandit instances: a safe-sounding and a risky-sounding name of the split, in an order by the stream."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import NamedTuple, TypeVar

from ragen_envs.levels.seeding import STREAM_MASK, Rng, advance, below, new_stream

_Item = TypeVar("_Item")


class Names(NamedTuple):
    """The names of a split; each safe-sounding one makes a pair with each risky-sounding one."""

    safe: tuple[str, ...]
    risky: tuple[str, ...]


@lru_cache(maxsize=1)
def arm_names() -> Mapping[str, Names]:
    """Return each split's names. No name is in two splits, or in two lists."""
    text = (resources.files("ragen_envs.games.bandit") / "names.json").read_text(encoding="utf-8")
    return {
        split: Names(tuple(lists["safe"]), tuple(lists["risky"])) for split, lists in json.loads(text).items()
    }


@lru_cache(maxsize=1)
def all_names() -> tuple[str, ...]:
    """Return every name of every split, in the order of the data; observations index into it."""
    return tuple(name for lists in arm_names().values() for names in lists for name in names)


@lru_cache(maxsize=1)
def name_indices() -> Mapping[str, int]:
    """Return the index of each name in ``all_names``."""
    return {name: index for index, name in enumerate(all_names())}


@lru_cache(maxsize=1)
def risky_names() -> frozenset[str]:
    """Return the names that sound risky."""
    return frozenset(name for lists in arm_names().values() for name in lists.risky)


def draw(stream: int, safe: int, risky: int) -> tuple[int, int, int, int]:
    """Draw a pair from ``safe`` safe-sounding and ``risky`` risky-sounding names, and its order.

    Returns:
        The number of the safe-sounding name, that of the risky-sounding one, 1 if the risky-sounding
        one comes first, and the advanced stream.
    """
    stream = advance(stream)
    first = below(stream, safe)
    stream = advance(stream)
    second = below(stream, risky)
    stream = advance(stream)
    return first, second, below(stream, 2), stream


def generate(stream: int, split: str) -> tuple[tuple[str, str], int]:
    """Draw the two arms of an instance, in the order shown, and return the advanced stream."""
    names = arm_names()[split]
    first, second, swapped, stream = draw(stream, len(names.safe), len(names.risky))
    safe, risky = names.safe[first], names.risky[second]
    return ((risky, safe) if swapped else (safe, risky)), stream


def pair_key(names: tuple[str, str]) -> int:
    """Return the key of a pair, equal in both orders, in [0, 2^63)."""
    low, high = sorted(name.encode() for name in names)
    return (zlib.crc32(low + b"/" + high) << 31 | zlib.crc32(high)) & STREAM_MASK


def every_pair(split: str) -> Iterator[tuple[str, str]]:
    """Yield every pair of the split once, in the order shown, so that each prefix is like the whole.

    Pairs come in rounds. A round holds each name once, in an order of its own; the next one pairs
    the same names otherwise. Of every two pairs, one shows the safe-sounding name first.
    """
    names, rng = arm_names()[split], Rng(new_stream(split, "pack bandit", 0))
    safe, risky = _shuffled(names.safe, rng), _shuffled(names.risky, rng)
    count = len(safe)
    number, swapped = 0, 0
    for shift in _shuffled(range(count), rng):
        for i in _shuffled(range(count), rng):
            pair = safe[i], risky[(i + shift) % count]
            swapped = rng.integers(2) if number % 2 == 0 else 1 - swapped
            yield pair[::-1] if swapped else pair
            number += 1


def _shuffled(items: Sequence[_Item], rng: Rng) -> list[_Item]:
    shuffled = list(items)
    for last in range(len(shuffled) - 1, 0, -1):
        other = rng.integers(last + 1)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return shuffled
