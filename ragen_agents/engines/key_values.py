"""Keys and values of a batch of token rows, which grow in place and can be selected and compacted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

_SPARE = 64
"""Slots that are added at least when a buffer is full."""


class GrowingLayer(DynamicLayer):
    """A cache layer with spare room: a step writes one slot and does not copy the others."""

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = 0
        if keys is not None and values is not None:
            self.lazy_initialization(keys, values)
            self.update(keys, values)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Make buffers of the right kind, without slots."""
        super().lazy_initialization(key_states, value_states)
        self._buffers = tuple(
            s.new_empty((*s.shape[:2], 0, s.shape[3])) for s in (key_states, value_states)
        )

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Append slots; returns all keys and values, (rows, heads, slots, head size)."""
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
        return self.keys, self.values


def _enlarged(buffer: Tensor, used: int, room: int) -> Tensor:
    larger = buffer.new_empty((*buffer.shape[:2], room, buffer.shape[3]))
    larger[:, :, :used] = buffer[:, :, :used]
    return larger


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

    layers: list[tuple[Tensor, Tensor]]
    """Of each layer: keys and values, (rows, heads, slots, head size)."""
    mask: Tensor
    """(rows, slots) bool; what lies in the other slots is never looked at."""

    @classmethod
    def of(cls, cache: Cache, mask: Tensor) -> "KeyValues":
        """Return what a cache holds, without copying."""
        layers: list[Any] = cache.layers
        return cls([(layer.keys, layer.values) for layer in layers], mask)

    def cache(self) -> Cache:
        """Return a cache that can grow, with copies of the keys and values."""
        return Cache(layers=[GrowingLayer(*pair) for pair in self.layers])

    def select(self, rows: Tensor) -> "KeyValues":
        """Return some rows, copied."""
        pairs = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.layers]
        return KeyValues(pairs, self.mask.index_select(0, rows))

    def beginnings(self, counts: Tensor) -> "KeyValues":
        """Return the same rows with only their first tokens, whose numbers are (rows,)."""
        return KeyValues(self.layers, self.mask & (self.mask.cumsum(1) <= counts[:, None]))

    def compacted(self) -> "KeyValues":
        """Return the same rows without gaps: each row's tokens lie at the end of its slots."""
        longest = int(self.mask.sum(1).max())
        order = self.mask.to(torch.uint8).sort(dim=1, stable=True).indices[:, -longest:]
        pairs = [(_picked(keys, order), _picked(values, order)) for keys, values in self.layers]
        return KeyValues(pairs, self.mask.gather(1, order))


def joined(parts: Sequence[KeyValues]) -> KeyValues:
    """Return the rows of several, one after another; shorter ones are filled up in front."""
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
    return KeyValues(layers, torch.cat([filled(part.mask, 1) for part in parts]))
