"""Rows of tokens that are read and decoded together."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import pad as padded
from transformers.cache_utils import Cache

from ragen_agents.engines.cpu.forward import Forward, Known
from ragen_agents.engines.cpu.key_values import GrowingLayer, KeyValues

READ_TOGETHER: Final = {True: 1024, False: 8192}
"""Tokens that are read together, padding included: on a processor, and on a GPU."""


class Batch:
    """Rows in lock-step. The first ones are open and go on; those that have ended lie behind them.

    Args:
        forward: Passes tokens through the model.
        count: Number of rows.
        device: Of the model.
        past: Keys and values of what the rows have read so far, which are taken over.
        feeds: How often rows will be fed at most.
    """

    def __init__(
        self, forward: Forward, count: int, device: torch.device, past: KeyValues | None = None,
        feeds: int = 0,
    ) -> None:  # fmt: skip
        self._forward, self._device = forward, device
        self._cache = Cache(layer_class_to_replicate=GrowingLayer) if past is None else past.cache()
        self._common = 0 if past is None else past.common_count
        nothing = torch.ones(count, 0, dtype=torch.bool, device=device)
        self._mask = nothing if past is None else past.mask
        """(rows, slots) bool, of what was read in chunks."""
        self._lengths = self._mask.sum(dim=1) + self._common
        self._order = torch.arange(count, device=device)
        self._count, self._fed, self._feeds = count, 0, feeds
        self._known: Known | None = None
        """Of all slots that there may be, once rows are fed."""

    @property
    def rows(self) -> Tensor:
        """Which rows are open, (n,) int64, in the order of their places."""
        return self._order[: self._count]

    def read(self, chunks: Sequence[Sequence[int]], pad: int) -> Tensor:
        """Read chunks of any lengths, before anything is fed.

        Args:
            chunks: One a row, none empty.
            pad: Any token id.

        Returns:
            The logits after each chunk, (rows, vocabulary).
        """
        longest = max(map(len, chunks))
        ids = torch.tensor([[pad] * (longest - len(c)) + list(c) for c in chunks])
        sizes = torch.tensor([len(c) for c in chunks])
        real = (torch.arange(longest) >= longest - sizes[:, None]).to(self._device)
        positions = self._lengths[:, None] + real.cumsum(dim=1) - 1
        self._mask = torch.cat([self._mask, real], dim=1)
        self._lengths = self._lengths + sizes.to(self._device)
        ids, positions = ids.to(self._device), positions.clamp(min=0)
        slots = padded(self._mask, (self._common, 0), value=True)
        if not self._cache.layers:
            gaps = 0 if int(sizes.min()) == longest else longest
            return self._forward(ids, positions, self._cache, Known(slots, gaps))
        return self._read_in_slices(ids, positions, slots)

    def _read_in_slices(self, ids: Tensor, positions: Tensor, slots: Tensor) -> Tensor:
        """Read some rows at a time, so that what a layer computes stays in a processor's cache."""
        layers: list[Any] = self._cache.layers
        for layer in layers:
            layer.reserve(ids.shape[1])
        size = max(1, READ_TOGETHER[self._device.type == "cpu"] // ids.shape[1])
        logits = []
        for start in range(0, len(ids), size):
            rows = slice(start, start + size)
            part = Cache(layers=[layer.part(start, start + size) for layer in layers])
            known = Known(slots[rows], slots.shape[1])
            logits.append(self._forward(ids[rows], positions[rows], part, known))
        for layer in layers:
            layer.length += ids.shape[1]
        return torch.cat(logits)

    def feed(self, tokens: Tensor) -> Tensor:
        """Read one token on each open row, (n,); returns logits, (n, vocabulary)."""
        self._fed += 1
        end = self._common + self._mask.shape[1] + self._fed
        known = self._all_known().part(self._count, end)
        positions = self._lengths[: self._count, None].clone()
        self._lengths += 1
        return self._forward(tokens[:, None], positions, self._cache, known)

    def _all_known(self) -> Known:
        if self._known is None:
            slots = padded(self._mask, (self._common, self._feeds), value=True)
            self._known = Known.of(slots)
        return self._known

    def keep(self, is_open: Tensor, left: int) -> None:
        """Let rows that have ended change places with open ones behind them, and go on with the others.

        Args:
            is_open: (n,) bool, which of the rows are.
            left: How many are.
        """
        ended, going = (~is_open[:left]).nonzero()[:, 0], is_open[left:].nonzero()[:, 0] + left
        places, others = torch.cat([ended, going]), torch.cat([going, ended])
        layers: list[Any] = self._cache.layers
        for layer in layers:
            layer.exchange(places, others)
        for state in (self._mask, self._all_known().slots, self._lengths, self._order):
            state.index_copy_(0, places, state.index_select(0, others))
        self._count = left

    def key_values(self, counts: Tensor | None = None) -> KeyValues:
        """Return the keys and values of all rows, without copying; nothing may be read or fed any more.

        Args:
            counts: (rows,) tokens that each row has written, the last of which it did not read. What was
                fed beyond them is masked.
        """
        mask = self._mask
        if counts is not None:
            fed = torch.arange(self._fed, device=self._device)
            mask = torch.cat([mask, fed < counts[self._order, None] - 1], dim=1)
        return KeyValues.of(self._cache, mask, self._order.argsort())
