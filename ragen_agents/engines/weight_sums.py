"""Sums of weights that do not depend on how they are laid out, by which it is seen whether they arrived.

Engines join matrices, reorder them and pad them with zeros. A sum of hashes over the bits of all elements
survives all of that, and still changes if one element changes in its last bit.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import torch
from torch import Tensor

from ragen_agents.engines.base import EngineError

_CHUNK: Final = 1 << 22
"""Elements hashed at the same time."""
_FIRST: Final = -0x61C8864680B583EB
_SECOND: Final = -0x40A7B892E31B1A47
"""Odd multipliers of a mixer of 64 bits, as signed numbers (SplitMix64, doi:10.1145/2660193.2660195)."""
_BITS: Final = {2: torch.int16, 4: torch.int32}
_SHOWN: Final = 3

Sums = dict[str, int]
"""A number of 64 bits for each place: a layer, or a weight outside of all layers."""


def sum_of(weight: Tensor) -> int:
    """Return the sum of a weight's hashed elements; zeros count nothing.

    Args:
        weight: Of any shape, in a precision of 16 or 32 bits.
    """
    flat = weight.detach().reshape(-1)
    bits = flat.view(_BITS[weight.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=weight.device)
    for chunk in bits.split(_CHUNK):
        mixed = chunk.long() * _FIRST
        mixed ^= mixed >> 32
        mixed *= _SECOND
        mixed ^= mixed >> 29
        total += mixed.sum()
    return int(total)


def place_of(name: str) -> str:
    """Return the place that a weight of some name belongs to, in the trainer and in an engine."""
    layer = re.search(r"\.(\d+)\.", name)
    return f"layer {layer.group(1)}" if layer else ".".join(name.split(".")[-2:])


def add_to(sums: Sums, name: str, weight: Tensor) -> None:
    """Add a weight to the sum of its place."""
    place = place_of(name)
    sums[place] = (sums.get(place, 0) + sum_of(weight)) % 2**64


def noted(weights: Iterable[tuple[str, Tensor]], sums: Sums) -> Iterator[tuple[str, Tensor]]:
    """Pass weights on, and add each to the sums."""
    for name, weight in weights:
        add_to(sums, name, weight)
        yield name, weight


def check_sums(sent: Mapping[str, int], found: Mapping[str, int], label: str) -> None:
    """Check that an engine holds the weights that were sent.

    A place that only one side has must equal one of the other's: a head tied to the embedding, which one of
    them stores twice.

    Args:
        sent: Of what the trainer has handed over.
        found: Of what the engine holds.
        label: Of the version of the weights, for people.

    Raises:
        EngineError: It holds others.
    """
    wrong = [place for place in sent.keys() & found.keys() if sent[place] != found[place]]
    for ours, theirs in ((sent, found), (found, sent)):
        wrong += [p for p in ours.keys() - theirs.keys() if ours[p] not in theirs.values()]
    if wrong or not sent:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        where = ", ".join(sorted(wrong)[:_SHOWN]) + more if wrong else "all layers"
        raise EngineError(
            f"after version '{label}' of the weights was sent, vLLM holds others in {where}: the engine does "
            "not have these weights"
        )
