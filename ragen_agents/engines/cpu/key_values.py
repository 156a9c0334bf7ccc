"""Keys and values of a batch of token rows, which grow in place and can be selected and compacted.

What all rows begin with can be kept once: their common slots come before those of each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

Pair = tuple[Tensor, Tensor]
"""Keys and values of a layer."""

_SPARE = 64
"""Slots that are added at least when a buffer is full."""


class Parted(NamedTuple):
    """Keys or values of rows that begin alike."""

    common: Tensor
    """(key heads, slots, head size), of the tokens that all rows begin with."""
    own: Tensor
    """(rows, key heads, slots, head size), of what follows on each row."""


class GrowingLayer(DynamicLayer):
    """A cache layer with spare room: a step writes one slot and does not copy the others.

    Args:
        pair: Buffers that it takes over, (rows, heads, room, head size).
        length: Slots of them that are in use.
        common: Keys and values, (heads, slots, head size), of what all rows begin with.
    """

    def __init__(self, pair: Pair | None = None, length: int = 0, common: Pair | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = length
        self.common = common
        if pair is not None:
            super().lazy_initialization(*pair)
            self.buffers = pair

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Create buffers of the right kind, without slots."""
        super().lazy_initialization(key_states, value_states)
        self.buffers = (_without_slots(key_states), _without_slots(value_states))

    def get_seq_length(self) -> int:
        """Return the slots of a row, common ones included."""
        return self.length + (0 if self.common is None else self.common[0].shape[1])

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Any, Any]:
        """Append slots to the first rows; returns all their keys and values, (rows, heads, slots, head size).

        If there are common slots, they are apart where one slot a row is appended, and are repeated for
        each row where more are.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows, count = key_states.shape[0], key_states.shape[2]
        self.reserve(count)
        end = self.length + count
        keys, values = self.buffers
        keys[:rows, :, self.length : end] = key_states
        values[:rows, :, self.length : end] = value_states
        self.length = end
        self.keys, self.values = keys[:rows, :, :end], values[:rows, :, :end]
        if self.common is None:
            return self.keys, self.values
        put = Parted if count == 1 else _put_together
        return put(self.common[0], self.keys), put(self.common[1], self.values)

    def reserve(self, count: int) -> None:
        """Reserve a number of further slots."""
        end = self.length + count
        if end > self.buffers[0].shape[2]:
            room = end + max(_SPARE, end // 2)
            self.buffers = (
                _enlarged(self.buffers[0], self.length, room),
                _enlarged(self.buffers[1], self.length, room),
            )

    def part(self, start: int, end: int) -> "GrowingLayer":
        """Return a layer of some of the rows, which writes into the same buffers while there is room."""
        keys, values = self.buffers
        return GrowingLayer((keys[start:end], values[start:end]), self.length, self.common)

    def exchange(self, places: Tensor, others: Tensor) -> None:
        """Put the rows at other places at these places."""
        for buffer in self.buffers:
            used = buffer[:, :, : self.length]
            used.index_copy_(0, places, used.index_select(0, others))


def _without_slots(states: Tensor) -> Tensor:
    return states.new_empty((*states.shape[:2], 0, states.shape[3]))


def _enlarged(buffer: Tensor, used: int, room: int) -> Tensor:
    # Zeros, for rows that have ended leave slots unwritten, and what is multiplied by 0 must be finite.
    larger = buffer.new_zeros((*buffer.shape[:2], room, buffer.shape[3]))
    larger[:, :, :used] = buffer[:, :, :used]
    return larger


def _put_together(common: Tensor, own: Tensor) -> Tensor:
    return torch.cat([common.expand(own.shape[0], *common.shape), own], dim=2)


def _picked(states: Tensor, places: Tensor, slots: Tensor) -> Tensor:
    """Return some slots of some rows: (n, heads, m, head size) for places (n,) and slots (n, m)."""
    _, heads, room, size = states.shape
    # Whole slots are copied by number: gather, element by element, takes three times as long.
    head = torch.arange(heads, device=slots.device)
    first = (places[:, None] * heads + head) * room
    numbers = (first[:, :, None] + slots[:, None]).flatten()
    flat = states.view(-1, size).index_select(0, numbers)
    return flat.view(len(places), heads, -1, size)


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of rows, and which slots hold a token of the row."""

    layers: list[Pair]
    """Buffers of the rows' own slots, by layer: (places, heads, room, head size)."""
    mask: Tensor
    """(places, slots) bool; what lies in the other slots is finite and never looked at. The rest of the room
    is spare."""
    places: Tensor
    """(rows,) int64: where each row lies."""
    common: list[Pair] = field(default_factory=list)
    """Keys and values of the common prefix of all rows, by layer: (heads, slots, head size); or nothing."""

    @classmethod
    def of(cls, cache: Cache, mask: Tensor, places: Tensor) -> "KeyValues":
        """Return the keys and values of a cache, without copying."""
        layers: list[Any] = cache.layers
        common = [layer.common for layer in layers if layer.common is not None]
        return cls([layer.buffers for layer in layers], mask, places, common)

    @property
    def common_count(self) -> int:
        """Number of tokens that all rows begin with and that are kept once."""
        return self.common[0][0].shape[1] if self.common else 0

    def cache(self) -> Cache:
        """Return a cache that takes the buffers over and writes into them."""
        common: Sequence[Pair | None] = self.common or [None] * len(self.layers)
        length = self.mask.shape[1]
        layers: list[Any] = [GrowingLayer(p, length, c) for p, c in zip(self.layers, common, strict=True)]
        return Cache(layers=layers)

    def shared_by(self, count: int) -> "KeyValues":
        """Return as many rows that begin with the only row of this, and have no slots of their own."""
        slots = self.mask.shape[1]
        common = [(keys[0, :, :slots], values[0, :, :slots]) for keys, values in self.layers]
        pairs = [
            (keys.new_empty(count, len(keys), 0, keys.shape[2]),
             values.new_empty(count, len(values), 0, values.shape[2]))
            for keys, values in common
        ]  # fmt: skip
        places = torch.arange(count, device=self.mask.device)
        return KeyValues(pairs, self.mask.new_empty(count, 0), places, common)

    def select(self, rows: Tensor) -> "KeyValues":
        """Return some rows, copied."""
        at = self.places[rows]
        pairs = [(k.index_select(0, at), v.index_select(0, at)) for k, v in self.layers]
        places = torch.arange(len(at), device=at.device)
        return KeyValues(pairs, self.mask.index_select(0, at), places, self.common)

    def beginnings(self, rows: Tensor, counts: Tensor, spare: int) -> "KeyValues":
        """Return the first tokens of some rows, copied, without gaps: they lie at the end of the slots.

        ``counts`` are the tokens of each row, (n,), in all slots; ``spare`` slots of room follow.
        """
        whole = self._with_common(min(self.common_count, int(counts.min())))
        at = whole.places[rows]
        mask = whole.mask.index_select(0, at)
        mask &= mask.cumsum(1) <= counts[:, None] - whole.common_count
        first = mask.shape[1] - int(mask.sum(1).max())
        order = mask.to(torch.uint8).sort(dim=1, stable=True).indices[:, first:]
        slots = torch.nn.functional.pad(order, (0, spare))
        pairs = [(_picked(k, at, slots), _picked(v, at, slots)) for k, v in whole.layers]
        places = torch.arange(len(at), device=at.device)
        return KeyValues(pairs, mask.gather(1, order), places, whole.common)

    def _with_common(self, count: int) -> "KeyValues":
        """Return the same with fewer common slots; the others become each row's own."""
        if count == self.common_count:
            return self
        layers = [
            tuple(_put_together(common[:, count:], own) for common, own in zip(shared, pair, strict=True))
            for shared, pair in zip(self.common, self.layers, strict=True)
        ]
        mask = torch.nn.functional.pad(self.mask, (self.common_count - count, 0), value=True)
        kept = [(keys[:, :count], values[:, :count]) for keys, values in self.common if count]
        return KeyValues([(keys, values) for keys, values in layers], mask, self.places, kept)
