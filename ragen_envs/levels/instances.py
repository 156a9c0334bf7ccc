"""Frozen instances: numbered levels of each split, whose files are content-hashed.

A pack is a JSON Lines file ``packs/<distribution>.<split>.jsonl``. ``packs/MANIFEST.json`` holds each
file's SHA-256, which is checked when a pack is loaded. ``python -m ragen_envs.games.packs``
makes all of them again, byte for byte.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from ragen_envs.errors import InstanceError
from ragen_envs.levels.splits import read_split

__all__ = ["FrozenInstance", "has_pack", "load_pack", "manifest"]


@dataclass(frozen=True)
class FrozenInstance:
    """One numbered level."""

    level: str
    """The level in its canonical text form."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts computed when the pack was made, such as ``moves`` of a shortest solution."""


@lru_cache(maxsize=1)
def manifest() -> dict[str, dict[str, Any]]:
    """Return, for each pack file, its ``sha256`` and its number of ``instances``."""
    folder = resources.files("ragen_envs.levels") / "packs"
    contents: dict[str, dict[str, Any]] = json.loads((folder / "MANIFEST.json").read_bytes())
    return contents


def has_pack(distribution: str, split: str) -> bool:
    """Return whether levels of a distribution are frozen."""
    return f"{distribution}.{split}.jsonl" in manifest()


@lru_cache(maxsize=32)
def load_pack(distribution: str, split: str) -> Sequence[FrozenInstance]:
    """Return the instances of a split, in their order.

    Raises:
        InstanceError: There is no such split or pack, or the file is not the published one.
    """
    split = read_split(split)
    name = f"{distribution}.{split}.jsonl"
    if name not in manifest():
        known = sorted({file.rsplit(".", 2)[0] for file in manifest()})
        raise InstanceError(
            f"there are no frozen instances of '{distribution}'; only of {', '.join(known)}. "
            "Use reset(seed=...) for fresh levels"
        )
    data = (resources.files("ragen_envs.levels") / "packs" / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != manifest()[name]["sha256"]:
        raise InstanceError(f"pack {name} differs from the published one; install the suite again")
    rows = [json.loads(line) for line in data.splitlines()]
    return tuple(FrozenInstance(row.pop("level"), row) for row in rows)
