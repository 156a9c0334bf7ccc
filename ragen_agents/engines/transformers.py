"""Rollouts by a transformers model in this process: requests of one temperature in lock-step."""

from collections.abc import Sequence
from typing import Any

import torch

from ragen_agents.engines.base import Completion, TokenRequest
from ragen_agents.engines.decoding import Decoder
from ragen_agents.engines.key_values import KeyValues


class TransformersEngine:
    """Generates with the very module that is trained.

    The keys and values of a request stay until the key's next request, which must extend it to use
    them. Members of a group share those of their prompt.

    Args:
        model: A causal language model with its weights.
        ends: Tokens that end a turn.
        pad: Any token id.
        max_tokens: Most tokens of one reply.
    """

    def __init__(self, model: Any, ends: frozenset[int], pad: int, max_tokens: int) -> None:
        self.version = 0
        self._model = model
        self._ends, self._pad, self._max_tokens = ends, pad, max_tokens
        self._queue: list[TokenRequest] = []
        self._past: KeyValues | None = None
        self._rows: dict[int, int] = {}
        self._read: list[list[int]] = []

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
        chunks, past = self._unread(requests)
        training = self._model.training
        self._model.eval()
        decoder = Decoder(self._model, self._ends, self._pad, temperature, self._max_tokens)
        samples, read = decoder.run(chunks, [request.seed for request in requests], past)
        self._model.train(training)
        self._past = read
        self._rows = {request.key: row for row, request in enumerate(requests)}
        self._read = [
            [*request.ids, *sample.ids[:-1]]
            for request, sample in zip(requests, samples, strict=True)
        ]
        return [
            Completion(request.key, sample.ids, sample.logprobs, sample.finish, self.version)
            for request, sample in zip(requests, samples, strict=True)
        ]

    def sync(self, model: Any, version: int) -> None:
        """Take over a model, which may be the one it has, after its weights have changed."""
        self._model, self.version = model, version
        self.rest()

    def rest(self) -> None:
        """Let go of the keys and values."""
        self._past, self._rows, self._read = None, {}, []

    def close(self) -> None:
        """Let go of the keys and values; the model is the caller's."""
        self.rest()

    def _unread(self, requests: Sequence[TokenRequest]) -> tuple[list[list[int]], KeyValues | None]:
        """Return what must be read on each row, and what was; nothing if any request is not known."""
        rows = [self._rows.get(request.key, -1) for request in requests]
        if self._past is None or -1 in rows:
            return [request.ids for request in requests], None
        chunks = []
        for row, request in zip(rows, requests, strict=True):
            seen = self._read[row]
            if len(seen) >= len(request.ids) or request.ids[: len(seen)] != seen:
                return [request.ids for request in requests], None
            chunks.append(request.ids[len(seen) :])
        picked = torch.tensor(rows, device=self._past.mask.device)
        return chunks, self._past.select(picked).compacted()
