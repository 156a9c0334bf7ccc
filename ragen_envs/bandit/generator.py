"""Bandit instances: a pair of names from the data of the split, in an order by the stream."""

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources

from ragen_envs.seeding import STREAM_MASK, advance, below

Pairs = Mapping[str, Sequence[tuple[str, str]]]


@lru_cache(maxsize=1)
def name_pairs() -> Pairs:
    """Return each split's pairs (safe-sounding name, risky-sounding name)."""
    text = (resources.files("ragen_envs.bandit") / "pairs.json").read_text(encoding="utf-8")
    return {split: [(a, b) for a, b in pairs] for split, pairs in json.loads(text).items()}


@lru_cache(maxsize=1)
def all_names() -> tuple[str, ...]:
    """Return every name of every split, in the order of the data; observations index into it."""
    return tuple(name for pairs in name_pairs().values() for pair in pairs for name in pair)


@lru_cache(maxsize=1)
def name_indices() -> Mapping[str, int]:
    """Return where each name first is in ``all_names``."""
    names = all_names()
    return {name: names.index(name) for name in names}


@lru_cache(maxsize=1)
def risky_names() -> frozenset[str]:
    """Return the names that sound risky."""
    return frozenset(risky for pairs in name_pairs().values() for _, risky in pairs)


def draw(stream: int, pairs: int) -> tuple[int, int, int]:
    """Draw one of ``pairs`` pairs; returns its number, 1 if swapped, and the advanced stream."""
    stream = advance(stream)
    pair = below(stream, pairs)
    stream = advance(stream)
    return pair, below(stream, 2), stream


def generate(stream: int, split: str) -> tuple[tuple[str, str], int]:
    """Draw the two arms of an instance, in the order shown, and return the advanced stream."""
    pairs = name_pairs()[split]
    pair, swapped, stream = draw(stream, len(pairs))
    first, second = pairs[pair]
    return ((second, first) if swapped else (first, second)), stream


def pair_key(names: tuple[str, str]) -> int:
    """Return the key of a pair, equal in both orders, in [0, 2^63)."""
    low, high = sorted(name.encode() for name in names)
    return (zlib.crc32(low + b"/" + high) << 31 | zlib.crc32(high)) & STREAM_MASK
