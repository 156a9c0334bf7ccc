"""Keys and values of a batch of token rows, which grow in place and can be selected and compacted.

What all rows begin with can be kept once: their common slots come before those of each row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from ragen_agents.engines.attention import Parted

Pair = tuple[Tensor, Tensor]
"""Keys and values of a layer."""

_SPARE = 64
"""Slots that are added at least when a buffer is full."""


class GrowingLayer(DynamicLayer):
    """A cache layer with spare room: a step writes one slot and does not copy the others.

    Args:
        keys, values: What it begins with, (rows, heads, slots, head size); they are copied.
        common: Keys and values, (heads, slots, head size), of what all rows begin with.
    """

    def __init__(
        self, keys: Tensor | None = None, values: Tensor | None = None, common: Pair | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = 0
        self.common = common
        if keys is not None and values is not None:
            self._append(keys, values)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make buffers of the right kind, without slots."""
        super().lazy_initialization(key_states, value_states)
        self._buffers = tuple(
            s.new_empty((*s.shape[:2], 0, s.shape[3])) for s in (key_states, value_states)
        )

    def get_seq_length(self) -> int:
        """Return the slots of a row, common ones included."""
        return self._length + (0 if self.common is None else self.common[0].shape[1])

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Any, Any]:
        """Append slots; returns all keys and values, (rows, heads, slots, head size).

        If there are common slots, they are apart where one slot a row is appended, and are repeated for
        each row where more are.
        """
        self._append(key_states, value_states)
        if self.common is None:
            return self.keys, self.values
        assert self.keys is not None
        assert self.values is not None
        put = Parted if key_states.shape[2] == 1 else _put_together
        return put(self.common[0], self.keys), put(self.common[1], self.values)

    def _append(self, key_states: Tensor, value_states: Tensor) -> None:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self._length + key_states.shape[2]
        if end > self._buffers[0].shape[2]:
            room = end + max(_SPARE, end // 2)
            self._buffers = tuple(_enlarged(b, self._length, room) for b in self._buffers)
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, self._length : end] = new
        self._length = end
        self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)


def _enlarged(buffer: Tensor, used: int, room: int) -> Tensor:
    larger = buffer.new_empty((*buffer.shape[:2], room, buffer.shape[3]))
    larger[:, :, :used] = buffer[:, :, :used]
    return larger


def _put_together(common: Tensor, own: Tensor) -> Tensor:
    return torch.cat([_repeated(common, own), own], dim=2)


def _repeated(common: Tensor, own: Tensor) -> Tensor:
    """Return common slots, (heads, slots, head size), for each row of ``own``, without copying them."""
    return common.expand(own.shape[0], *common.shape)


def _picked(states: Tensor, slots: Tensor) -> Tensor:
    """Return some slots of each row: (rows, heads, n, head size) for slots (rows, n)."""
    rows, heads, room, size = states.shape
    # Whole slots are copied by number: gather, element by element, takes three times as long.
    first = torch.arange(rows * heads, device=slots.device).view(rows, heads, 1) * room
    numbers = (first + slots[:, None]).flatten()
    flat = states.reshape(rows * heads * room, size).index_select(0, numbers)
    return flat.view(rows, heads, -1, size)


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of rows, and which slots hold a token of the row."""

    layers: list[Pair]
    """Of each layer: keys and values of the rows' own slots, (rows, heads, slots, head size)."""
    mask: Tensor
    """(rows, slots) bool; what lies in the other slots is never looked at."""
    common: list[Pair] = field(default_factory=list)
    """Of each layer: keys and values of what all rows begin with, (heads, slots, head size); or nothing."""

    @classmethod
    def of(cls, cache: Cache, mask: Tensor) -> "KeyValues":
        """Return what a cache holds, without copying."""
        layers: list[Any] = cache.layers
        common = [layer.common for layer in layers if layer.common is not None]
        return cls([(layer.keys, layer.values) for layer in layers], mask, common)

    @property
    def common_count(self) -> int:
        """Number of tokens that all rows begin with and that are kept once."""
        return self.common[0][0].shape[1] if self.common else 0

    def cache(self) -> Cache:
        """Return a cache that can grow, with copies of the rows' own keys and values."""
        common: Sequence[Pair | None] = self.common or [None] * len(self.layers)
        return Cache(
            layers=[
                GrowingLayer(*pair, shared)
                for pair, shared in zip(self.layers, common, strict=True)
            ]
        )

    def shared_by(self, count: int) -> "KeyValues":
        """Return as many rows that begin with the only row of this, and have no slots of their own."""
        common = [(keys[0], values[0]) for keys, values in self.layers]
        pairs = [
            (keys.new_empty(count, *keys.shape[:1], 0, keys.shape[2]) for keys in pair)
            for pair in common
        ]
        nothing = self.mask.new_empty(count, 0)
        return KeyValues([(keys, values) for keys, values in pairs], nothing, common)

    def select(self, rows: Tensor) -> "KeyValues":
        """Return some rows, copied."""
        pairs = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.layers]
        return KeyValues(pairs, self.mask.index_select(0, rows), self.common)

    def beginnings(self, counts: Tensor) -> "KeyValues":
        """Return the same rows with only their first tokens, whose numbers are (rows,), of all slots."""
        whole = self._with_common(min(self.common_count, int(counts.min())))
        left = counts[:, None] - whole.common_count
        return KeyValues(whole.layers, whole.mask & (whole.mask.cumsum(1) <= left), whole.common)

    def _with_common(self, count: int) -> "KeyValues":
        """Return the same with fewer common slots; the others become each row's own."""
        if count == self.common_count:
            return self
        layers = [
            tuple(
                _put_together(common[:, count:], own)
                for common, own in zip(shared, pair, strict=True)
            )
            for shared, pair in zip(self.common, self.layers, strict=True)
        ]
        mask = torch.nn.functional.pad(self.mask, (self.common_count - count, 0), value=True)
        kept = [(keys[:, :count], values[:, :count]) for keys, values in self.common if count]
        return KeyValues([(keys, values) for keys, values in layers], mask, kept)

    def compacted(self) -> "KeyValues":
        """Return the same rows without gaps: each row's own tokens lie at the end of its slots."""
        first = self.mask.shape[1] - int(self.mask.sum(1).max())
        order = self.mask.to(torch.uint8).sort(dim=1, stable=True).indices[:, first:]
        pairs = [(_picked(keys, order), _picked(values, order)) for keys, values in self.layers]
        return KeyValues(pairs, self.mask.gather(1, order), self.common)


def joined(parts: Sequence[KeyValues]) -> KeyValues:
    """Return the rows of several that begin alike, one after another; shorter ones are filled up in front."""
    if len(parts) == 1:
        return parts[0]
    slots = max(part.mask.shape[1] for part in parts)

    def filled(tensor: Tensor, dim: int) -> Tensor:
        missing = slots - tensor.shape[dim]
        padding = (0, 0) * (tensor.dim() - 1 - dim) + (missing, 0)
        return torch.nn.functional.pad(tensor, padding)

    layers = [
        (
            torch.cat([filled(p.layers[i][0], 2) for p in parts]),
            torch.cat([filled(p.layers[i][1], 2) for p in parts]),
        )
        for i in range(len(parts[0].layers))
    ]
    return KeyValues(layers, torch.cat([filled(part.mask, 1) for part in parts]), parts[0].common)
