"""Sample from a causal language model, many rows at once, each with a seed of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad as padded
from transformers.cache_utils import Cache

from ragen_agents.engines.cpu.forward import Forward, Known, LlamaForward, forward_of, has_windows
from ragen_agents.engines.cpu.key_values import GrowingLayer, KeyValues
from ragen_agents.engines.cpu.sampling import Replies, Sample, draw
from ragen_agents.engines.device import computing_in

_STEPS_BETWEEN_CHECKS: Final = {"cpu": 1, "other": 8}
"""Steps after which the open rows are counted; a GPU stops working meanwhile."""
_LEFT: Final = 7 / 8
"""Rows that have ended are dropped once at most this share is still open."""


class Batch:
    """Rows in lock-step. The first ones are open; those that have ended lie behind them.

    Keys and values in ``past``, of what the rows have read so far, are taken over; rows are fed ``feeds``
    times at most.
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

    @property
    def rows(self) -> Tensor:
        """Numbers of the open rows, (n,) int64, in the order of their places."""
        return self._order[: self._count]

    def read(self, chunks: Sequence[Sequence[int]], pad: int) -> Tensor:
        """Read chunks of any lengths, one a row, none empty, before anything is fed.

        Returns the logits after each chunk, (rows, vocabulary).
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
        size = max(1, tokens_read_together(on_gpu=self._device.type != "cpu") // ids.shape[1])
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
        known = self._known.part(self._count, end)
        positions = self._lengths[: self._count, None].clone()
        self._lengths += 1
        return self._forward(tokens[:, None], positions, self._cache, known)

    @cached_property
    def _known(self) -> Known:
        """Known slots, of all that may be used once rows are fed."""
        return Known.of(padded(self._mask, (self._common, self._feeds), value=True))

    def keep(self, is_open: Tensor, left: int) -> None:
        """Swap rows that have ended with open ones behind them, and continue with the others.

        ``left`` of the rows, (n,) bool, are open.
        """
        ended, going = (~is_open[:left]).nonzero()[:, 0], is_open[left:].nonzero()[:, 0] + left
        places, others = torch.cat([ended, going]), torch.cat([going, ended])
        layers: list[Any] = self._cache.layers
        for layer in layers:
            layer.exchange(places, others)
        for state in (self._mask, self._known.slots, self._lengths, self._order):
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


@dataclass(frozen=True)
class Decoder:
    """Samples rows in lock-step; rows that have ended leave the batch.

    A row's tokens depend on its own prompt and seed, and beyond them only on the rounding of sums.
    """

    model: Any
    stop_token_ids: frozenset[int]
    """Tokens that end a turn."""
    pad: int
    temperature: float
    max_tokens: int
    precision: torch.dtype | None = None
    """Arithmetic of the passes (autocast), by default that of the weights."""
    ends_with_stop: Callable[[Tensor], Tensor] | None = None
    """Returns which rows of tokens, (n, steps) int64, end with a stop text; None without such texts."""

    @property
    def reads_in_parts(self) -> bool:
        """Whether a prompt can be read in parts, with padding between them on shorter rows.

        Windows of attention are counted in slots, so there padding would take the place of tokens.
        """
        return not has_windows(self.model.config.get_text_config())

    def run(
        self, chunks: Sequence[Sequence[int]], seeds: Sequence[int], past: KeyValues | None = None
    ) -> tuple[list[Sample], KeyValues]:
        """Read a chunk of tokens on each row, then sample up to ``max_tokens``.

        Args:
            chunks: Token ids, at least one a row.
            seeds: One a row.
            past: Keys and values of what the rows have read so far, which are taken over.

        Returns:
            A sample a row, and the keys and values of all that was read, without each row's last token.
        """
        with computing_in(self.precision, self.model):
            batch, logits = self._start(chunks, past)
            del past
            replies = self._sample(batch, logits, seeds)
            return replies.samples(), batch.key_values(replies.counts)

    def _sample(self, batch: Batch, logits: Tensor, seeds: Sequence[int]) -> Replies:
        """Sample until all rows have ended; between checks nothing waits for the device."""
        device = logits.device
        replies = Replies(len(seeds), self.max_tokens, self.stop_token_ids, device, self.ends_with_stop)
        own = [np.random.default_rng(seed).random(self.max_tokens) for seed in seeds]
        draws = torch.from_numpy(np.stack(own, axis=1)).to(device)
        every = _STEPS_BETWEEN_CHECKS["cpu" if device.type == "cpu" else "other"]
        for step in range(self.max_tokens):
            rows = batch.rows
            replies.write(rows, draw(logits, draws[step].index_select(0, rows), self.temperature))
            all_ended = (step + 1) % every == 0 and not _drop_ended(batch, replies)
            if all_ended or step + 1 == self.max_tokens:
                break
            logits = batch.feed(replies.last(batch.rows))
        return replies

    def _start(self, chunks: Sequence[Sequence[int]], past: KeyValues | None) -> tuple[Batch, Tensor]:
        if past is not None:
            batch = self._batch(len(chunks), past)
            return batch, batch.read(chunks, self.pad)
        # The members of a group begin with the same prompt, which is read once, and all prompts
        # with the same rules.
        prompts = list(dict.fromkeys(map(tuple, chunks)))
        shared = _shared_beginning(prompts) if self.reads_in_parts else 0
        batch = self._batch(len(prompts), self._read_once(prompts[0][:shared], len(prompts)))
        logits = batch.read([prompt[shared:] for prompt in prompts], self.pad)
        if len(prompts) == len(chunks):
            return batch, logits
        places = {prompt: i for i, prompt in enumerate(prompts)}
        copies = torch.tensor([places[tuple(chunk)] for chunk in chunks], device=logits.device)
        return self._batch(len(chunks), batch.key_values().select(copies)), logits[copies]

    def _read_once(self, ids: Sequence[int], rows: int) -> KeyValues | None:
        """Return keys and values of the same tokens on all rows, or None without tokens."""
        if not ids:
            return None
        batch = self._batch(1)
        batch.read([ids], self.pad)
        if isinstance(self._forward, LlamaForward):
            return batch.key_values().shared_by(rows)
        return batch.key_values().select(torch.zeros(rows, dtype=torch.int64, device=self.model.device))

    def _batch(self, rows: int, past: KeyValues | None = None) -> Batch:
        return Batch(self._forward, rows, self.model.device, past, self.max_tokens)

    @cached_property
    def _forward(self) -> Forward:
        return forward_of(self.model, not self.reads_in_parts)


def _drop_ended(batch: Batch, replies: Replies) -> int:
    """Drop the rows that have ended, if they are many but not all, and return the number of open ones."""
    is_open = replies.are_open(batch.rows)
    left = int(is_open.sum())
    if left and left <= _LEFT * len(is_open):
        batch.keep(is_open, left)
    return left


def tokens_read_together(on_gpu: bool) -> int:
    """Return the number of tokens that are read together, padding included."""
    return 8192 if on_gpu else 1024


def fresh_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """Count the tokens to read where nothing was read before."""
    distinct = set(map(tuple, prompts))
    return sum(map(len, distinct)) - (len(distinct) - 1) * _shared_beginning(list(distinct))


def _shared_beginning(prompts: Sequence[Sequence[int]]) -> int:
    """Count the tokens that all prompts begin with, without the last one of any."""
    shortest = min(map(len, prompts)) - 1
    first = prompts[0]
    return next((i for i in range(shortest) if any(prompt[i] != first[i] for prompt in prompts)), shortest)
