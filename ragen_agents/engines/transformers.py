"""Rollouts by a transformers model in this process: all waiting requests in lock-step."""

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
        temperature: Of the sampling; 0 for greedy decoding.
        max_tokens: Most tokens of one reply.
    """

    def __init__(
        self, model: Any, ends: frozenset[int], pad: int, temperature: float, max_tokens: int
    ) -> None:
        self.version = 0
        self._decoder = Decoder(model, ends, pad, temperature, max_tokens)
        self._queue: list[TokenRequest] = []
        self._past: KeyValues | None = None
        self._rows: dict[int, int] = {}
        self._read: list[list[int]] = []

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""
        self._queue.extend(requests)

    def poll(self) -> list[Completion]:
        """Answer everything that is queued."""
        requests, self._queue = self._queue, []
        if not requests:
            return []
        chunks, past = self._unread(requests)
        model = self._decoder.model
        training = model.training
        model.eval()
        samples, read = self._decoder.run(chunks, [request.seed for request in requests], past)
        model.train(training)
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
        self._decoder = Decoder(
            model, self._decoder.ends, self._decoder.pad, self._decoder.temperature,
            self._decoder.max_tokens,
        )  # fmt: skip
        self.version = version
        self._past, self._rows, self._read = None, {}, []

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
