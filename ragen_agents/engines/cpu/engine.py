"""Rollouts by a transformers model in this process: requests of one temperature in lock-step."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ragen_agents.engines.base import Completion, TokenRequest
from ragen_agents.engines.cpu.decoding import Decoder
from ragen_agents.engines.cpu.prefix_cache import PrefixCache


class TransformersEngine:
    """Generates with the module that is being trained, or with a whole copy if that one is sharded.

    The KV cache is kept until the next requests, and a prefix that a request shares with an earlier one is
    not processed again. Members of a group share the KV cache of their prompt.

    Args:
        model: A causal language model with its weights.
        stop_token_ids: Tokens that end a turn.
        pad: Any token id.
        max_tokens: Maximum number of tokens per reply.
        precision: Arithmetic of the passes (autocast), by default that of the weights.
        ends_with_stop: See `Decoder`.
    """

    def __init__(
        self, model: Any, stop_token_ids: frozenset[int], pad: int, max_tokens: int,
        precision: torch.dtype | None = None, ends_with_stop: Callable[[Tensor], Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.version = 0
        self._precision, self._ends_with_stop = precision, ends_with_stop
        self._decoders: dict[float, Decoder] = {}
        self._model = model
        self._stop_token_ids, self._pad, self._max_tokens = stop_token_ids, pad, max_tokens
        self._queue: list[TokenRequest] = []
        self._prefix_cache = PrefixCache()

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""
        self._queue.extend(requests)

    def poll(self) -> list[Completion]:
        """Answer everything that is queued with the temperature of the first request."""
        if not self._queue:
            return []
        temperature = self._queue[0].temperature
        requests = [r for r in self._queue if r.temperature == temperature]
        self._queue = [r for r in self._queue if r.temperature != temperature]
        training = self._model.training
        self._model.eval()
        decoder = self._decoders.setdefault(
            temperature,
            Decoder(
                self._model, self._stop_token_ids, self._pad, temperature, self._max_tokens,
                self._precision, ends_with_stop=self._ends_with_stop,
            ),
        )  # fmt: skip
        prompts, seeds = [request.ids for request in requests], [r.seed for r in requests]
        samples = self._prefix_cache.sample(decoder, prompts, seeds)
        self._model.train(training)
        return [
            Completion(
                request.key, sample.ids, sample.logprobs, sample.finish, self.version, sample.entropies
            )
            for request, sample in zip(requests, samples, strict=True)
        ]

    def sync(self, model: Any, version: int) -> None:
        """Use a model, which may be the current one, after its weights have changed."""
        if model is not self._model:
            self._decoders.clear()
        self._model, self.version = model, version
        self.release()

    def release(self) -> None:
        """Release the KV cache."""
        self._prefix_cache.clear()

    def close(self) -> None:
        """Release the KV cache; the model belongs to the caller."""
        self.release()
