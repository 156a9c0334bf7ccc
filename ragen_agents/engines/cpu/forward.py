"""Passes of tokens through a model with keys and values kept."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache


class Known(NamedTuple):
    """Which slots hold a token of the row."""

    slots: Tensor
    """(rows, slots) bool."""
    gaps: int
    """Slots after which all others hold one."""

    @classmethod
    def of(cls, slots: Tensor) -> "Known":
        """Return where the tokens of rows lie; waits for the device."""
        gaps = (~slots.all(dim=0)).nonzero()
        return cls(slots, int(gaps.max()) + 1 if len(gaps) else 0)

    def is_plain(self, queries: int) -> bool:
        """Return whether so many queries are all that there is, so that a causal mask says all."""
        return not self.gaps and self.slots.shape[1] == queries

    def part(self, rows: int, slots: int) -> "Known":
        """Return the same of the first rows and slots."""
        return Known(self.slots[:rows, :slots], min(self.gaps, slots))

    def bias(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """Return what is added to the products of some slots in a step, (rows, 1, 1, end - start)."""
        nothing = torch.zeros((), dtype=dtype, device=self.slots.device)
        bias = nothing.where(self.slots[:, start:end], float("-inf"))
        return bias[:, None, None]

    def causal_bias(self, queries: int, dtype: torch.dtype) -> Tensor:
        """Return what is added to the products of the last slots' queries: (rows, 1, queries, slots)."""
        slots = self.slots.shape[1]
        column = torch.arange(slots, device=self.slots.device)
        place = column[slots - queries :, None]
        # Padding sees itself, for the softmax of nothing is not a number.
        seen = (self.slots[:, None] & (column < place)) | (column == place)
        nothing = torch.zeros((), dtype=dtype, device=self.slots.device)
        return nothing.where(seen, float("-inf"))[:, None]


class Forward(Protocol):
    """Passes tokens through a model."""

    def __call__(self, ids: Tensor, positions: Tensor, cache: Cache, known: Known) -> Tensor:
        """Read tokens after those in a cache, which grows.

        Args:
            ids: (rows, n) token ids.
            positions: (rows, n), from 0.
            cache: Of `GrowingLayer`.
            known: Of all slots, those of ``ids`` included.

        Returns:
            The logits after the last token of each row, (rows, vocabulary).
        """


class ModuleForward:
    """The model's own forward pass, of any architecture.

    Args:
        model: A causal language model.
        windowed: Whether its attention has a window, whose masks only the model itself can make; it then
            waits for the device at each step.
    """

    def __init__(self, model: Any, windowed: bool) -> None:
        self._model, self._windowed = model, windowed

    def __call__(self, ids: Tensor, positions: Tensor, cache: Cache, known: Known) -> Tensor:
        """Read tokens; see `Forward`."""
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask(ids.shape[1], known),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _mask(self, queries: int, known: Known) -> Tensor | None:
        if self._windowed:
            return known.slots.long()
        if known.is_plain(queries):
            return None
        if queries > 1:
            return known.causal_bias(queries, self._model.dtype)
        slots = known.slots.shape[1]
        return known.bias(0, slots, self._model.dtype) if known.gaps else None
