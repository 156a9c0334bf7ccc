"""Sampling from a causal language model, many rows at once, each with a seed of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ragen_agents.engines.cpu.attention import shared_keys
from ragen_agents.engines.cpu.batch import Batch
from ragen_agents.engines.cpu.forward import Forward
from ragen_agents.engines.cpu.key_values import KeyValues
from ragen_agents.engines.cpu.llama_forward import forward_of
from ragen_agents.engines.cpu.replies import Replies, Sample
from ragen_agents.engines.cpu.sampling import draw
from ragen_agents.engines.cpu.windows import has_windows
from ragen_agents.engines.precision import computing_in

_PASSES_KEYS_ON: Final = frozenset({"gemma", "llama", "mistral", "qwen2", "qwen3"})
"""Types of models known to hand what a cache returns to the attention function, and to nothing else."""
_STEPS_BETWEEN_CHECKS: Final = {"cpu": 1, "other": 8}
"""After so many steps it is asked which rows are open; a GPU stops working while it is asked."""
_LEFT: Final = 7 / 8
"""Share of open rows at which those that have ended leave."""


@dataclass(frozen=True)
class Decoder:
    """Samples rows in lock-step; rows that have ended leave the batch.

    A row's tokens depend on its own prompt and seed, and on its place in the batch only through the
    rounding of floating-point sums.
    """

    model: Any
    stop_token_ids: frozenset[int]
    """Tokens that end a turn."""
    pad: int
    temperature: float
    max_tokens: int
    precision: torch.dtype | None = None
    """Arithmetic of the passes (autocast), by default that of the weights."""

    @property
    def reads_in_parts(self) -> bool:
        """Whether a prompt can be read in parts, with padding between them on shorter rows.

        Windows of attention are counted in slots, so there padding would take the place of tokens.
        """
        return not has_windows(self.model.config.get_text_config())

    @property
    def keeps_common_once(self) -> bool:
        """Whether keys of what all rows begin with are kept once; the model must let them pass."""
        config = self.model.config
        return config.model_type in _PASSES_KEYS_ON and config._attn_implementation == "sdpa"

    def run(
        self, chunks: Sequence[Sequence[int]], seeds: Sequence[int], past: KeyValues | None = None
    ) -> tuple[list[Sample], KeyValues]:
        """Read a chunk of tokens on each row, then sample up to ``max_tokens``.

        Args:
            chunks: The prompts, or what follows ``past`` on each row; none empty.
            seeds: One a row.
            past: Keys and values of what the rows have read so far, which are taken over.

        Returns:
            One sample a row; keys and values of all that was read, without each row's last token.
        """
        with computing_in(self.precision, self.model), shared_keys():
            batch, logits = self._start(chunks, past)
            del past
            replies = self._sample(batch, logits, seeds)
            return replies.samples(), batch.key_values(replies.counts())

    def _sample(self, batch: Batch, logits: Tensor, seeds: Sequence[int]) -> Replies:
        """Sample until all rows have ended; between checks nothing waits for the device."""
        device = logits.device
        replies = Replies(len(seeds), self.max_tokens, self.stop_token_ids, device)
        own = [np.random.default_rng(seed).random(self.max_tokens) for seed in seeds]
        draws = torch.from_numpy(np.stack(own, axis=1)).to(device)
        every = _STEPS_BETWEEN_CHECKS["cpu" if device.type == "cpu" else "other"]
        for step in range(self.max_tokens):
            rows = batch.rows
            replies.write(rows, draw(logits, draws[step].index_select(0, rows), self.temperature))
            ended = (step + 1) % every == 0 and _all_ended(batch, replies)
            if ended or step + 1 == self.max_tokens:
                break
            logits = batch.feed(replies.last(batch.rows))
        return replies

    def _start(
        self, chunks: Sequence[Sequence[int]], past: KeyValues | None
    ) -> tuple[Batch, Tensor]:
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
        if self.keeps_common_once:
            return batch.key_values().shared_by(rows)
        return batch.key_values().select(
            torch.zeros(rows, dtype=torch.int64, device=self.model.device)
        )

    def _batch(self, rows: int, past: KeyValues | None = None) -> Batch:
        return Batch(self._forward, rows, self.model.device, past, self.max_tokens)

    @cached_property
    def _forward(self) -> Forward:
        return forward_of(self.model, not self.reads_in_parts)


def _all_ended(batch: Batch, replies: Replies) -> bool:
    """Return whether no row is open, and let those that have ended leave if they are many."""
    is_open = replies.are_open(batch.rows)
    left = int(is_open.sum())
    if left and left <= _LEFT * len(is_open):
        batch.keep(is_open, left)
    return left == 0


def fresh_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many tokens are read where nothing was read before."""
    distinct = set(map(tuple, prompts))
    return sum(map(len, distinct)) - (len(distinct) - 1) * _shared_beginning(list(distinct))


def _shared_beginning(prompts: Sequence[Sequence[int]]) -> int:
    """Return how many tokens all prompts begin with, without the last one of any."""
    shortest = min(map(len, prompts)) - 1
    first = prompts[0]
    return next(
        (i for i in range(shortest) if any(prompt[i] != first[i] for prompt in prompts)), shortest
    )


def stop_token_ids(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a turn, as a model's generation config and its tokenizer name them."""
    named = generation_config.eos_token_id
    listed = named if isinstance(named, list) else [named]
    return frozenset({*listed, tokenizer.eos_token_id} - {None})
