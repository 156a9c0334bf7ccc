"""Sampling from a causal language model, many rows at once, each with a seed of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ragen_agents.engines.attention import shared_keys
from ragen_agents.engines.key_values import GrowingLayer, KeyValues, joined

_PASSES_KEYS_ON: Final = frozenset({"gemma", "llama", "mistral", "qwen2", "qwen3"})
"""Types of models known to hand what a cache returns to the attention function, and to nothing else."""


@dataclass
class Sample:
    """What one row has written."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each token, in nats, under the tempered distribution; untempered if greedy."""
    finish: Literal["stop", "length"] = "length"


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

    @property
    def reads_in_parts(self) -> bool:
        """Whether a prompt can be read in parts, with padding between them on shorter rows.

        Windows of attention are counted in slots, so there padding would take the place of tokens.
        """
        config = self.model.config.get_text_config()
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
        windowed = getattr(config, "sliding_window", None) is not None
        chunked = getattr(config, "attention_chunk_size", None) is not None
        return not ((windowed and "sliding_attention" in kinds) or chunked)

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
            past: Keys and values of what the rows have read so far.

        Returns:
            One sample a row; keys and values of all that was read, without each row's last token.
        """
        with torch.inference_mode(), shared_keys():
            batch, logits = self._start(chunks, past)
            del past  # the batch has a copy, which grows
            return self._sample(batch, logits, seeds), batch.key_values()

    def _sample(self, batch: "_Batch", logits: Tensor, seeds: Sequence[int]) -> list[Sample]:
        samples = [Sample() for _ in seeds]
        draws = np.stack([np.random.default_rng(seed).random(self.max_tokens) for seed in seeds])
        for step in range(self.max_tokens):
            tokens, logprobs = self._draw(logits, torch.from_numpy(draws[batch.rows, step]))
            self._write(samples, batch, tokens.tolist(), logprobs.tolist())
            if step + 1 == self.max_tokens or not any(batch.open):
                break
            logits = batch.feed(batch.shrunk(tokens), self.pad)
        return samples

    def _start(
        self, chunks: Sequence[Sequence[int]], past: KeyValues | None
    ) -> tuple["_Batch", Tensor]:
        if past is not None:
            batch = _Batch(self.model, len(chunks), past)
            return batch, batch.read(chunks, self.pad)
        # The members of a group begin with the same prompt, which is read once, and all prompts
        # with the same rules.
        prompts = list(dict.fromkeys(map(tuple, chunks)))
        shared = _shared_beginning(prompts) if self.reads_in_parts else 0
        batch = _Batch(self.model, len(prompts), self._read_once(prompts[0][:shared], len(prompts)))
        logits = batch.read([prompt[shared:] for prompt in prompts], self.pad)
        places = {prompt: i for i, prompt in enumerate(prompts)}
        copies = torch.tensor([places[tuple(chunk)] for chunk in chunks], device=logits.device)
        if len(prompts) == len(chunks):
            return batch, logits
        members = _Batch(self.model, len(chunks), batch.key_values().select(copies))
        return members, logits[copies]

    def _read_once(self, ids: Sequence[int], rows: int) -> KeyValues | None:
        """Return keys and values of the same tokens on all rows, or None without tokens."""
        if not ids:
            return None
        batch = _Batch(self.model, 1)
        batch.read([ids], self.pad)
        if self.keeps_common_once:
            return batch.key_values().shared_by(rows)
        return batch.key_values().select(
            torch.zeros(rows, dtype=torch.int64, device=self.model.device)
        )

    def _write(
        self, samples: list[Sample], batch: "_Batch", tokens: list[int], logprobs: list[float]
    ) -> None:
        for place, row in enumerate(batch.rows):
            if not batch.open[place]:
                continue
            samples[row].ids.append(tokens[place])
            samples[row].logprobs.append(logprobs[place])
            if tokens[place] in self.stop_token_ids:
                samples[row].finish = "stop"
                batch.open[place] = False

    def _draw(self, logits: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Return tokens and their log-probabilities, (rows,) each, for logits (rows, vocabulary)."""
        logprobs = torch.log_softmax(logits.float() / (self.temperature or 1.0), dim=-1)
        if self.temperature == 0:
            tokens = logprobs.argmax(dim=-1)
        else:
            chances = logprobs.exp().cumsum(dim=-1, dtype=torch.float64)
            bar = draws.to(chances.device) * chances[:, -1]
            tokens = torch.searchsorted(chances, bar[:, None], right=True)[:, 0]
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


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


class _Batch:
    """Rows that are fed together. Rows that have ended leave when they are half of the batch."""

    def __init__(self, model: Any, count: int, past: KeyValues | None = None) -> None:
        self.model = model
        self.cache = Cache(layer_class_to_replicate=GrowingLayer) if past is None else past.cache()
        self.mask = None if past is None else past.mask
        self._common = 0 if past is None else past.common_count
        self.rows = list(range(count))
        """Which row is at each place."""
        self.open = [True] * count
        """Whether the row at each place has not ended."""
        self._left: list[tuple[list[int], KeyValues]] = []

    def read(self, chunks: Sequence[Sequence[int]], pad: int) -> Tensor:
        """Read chunks of any lengths; returns the logits after each, (rows, vocabulary)."""
        longest = max(map(len, chunks))
        ids = torch.tensor([[pad] * (longest - len(c)) + list(c) for c in chunks])
        attention_mask = torch.tensor(
            [[False] * (longest - len(c)) + [True] * len(c) for c in chunks]
        )
        return self._forward(ids, attention_mask)

    def feed(self, tokens: Tensor, pad: int) -> Tensor:
        """Read one token on each open row; returns logits, (rows, vocabulary)."""
        attention_mask = torch.tensor(self.open)[:, None]
        ids = torch.where(attention_mask, tokens.cpu()[:, None], pad)
        return self._forward(ids, attention_mask)

    def _forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        device = self.model.device
        attention_mask = attention_mask.to(device)
        self.mask = (
            attention_mask if self.mask is None else torch.cat([self.mask, attention_mask], dim=1)
        )
        places = self.mask.cumsum(dim=1)[:, -ids.shape[1] :] - 1 + self._common
        whole = torch.nn.functional.pad(self.mask, (self._common, 0), value=True)
        output = self.model(
            input_ids=ids.to(device),
            attention_mask=whole.long(),
            position_ids=places.clamp(min=0),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def shrunk(self, tokens: Tensor) -> Tensor:
        """Let ended rows leave if they are half of the batch; returns the tokens of those that stay."""
        if 2 * sum(self.open) > len(self.open):
            return tokens
        stay = [place for place, is_open in enumerate(self.open) if is_open]
        leave = [place for place, is_open in enumerate(self.open) if not is_open]
        now = self._now()
        self._left.append(([self.rows[i] for i in leave], now.select(self._at(leave))))
        kept = now.select(self._at(stay))
        self.cache, self.mask = kept.cache(), kept.mask
        self.rows = [self.rows[i] for i in stay]
        self.open = [True] * len(stay)
        return tokens[self._at(stay)]

    def key_values(self) -> KeyValues:
        """Return the keys and values of all rows, those that left included, in their order."""
        parts = [*self._left, (self.rows, self._now())]
        order = [row for rows, _ in parts for row in rows]
        whole = joined([part for _, part in parts])
        if order == sorted(order):
            return whole
        return whole.select(torch.tensor(order, device=whole.mask.device).argsort())

    def _now(self) -> KeyValues:
        assert self.mask is not None
        return KeyValues.of(self.cache, self.mask)

    def _at(self, places: list[int]) -> Tensor:
        return torch.tensor(places, device=self.model.device)
