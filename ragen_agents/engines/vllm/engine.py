"""Rollouts by vLLM: each reply is returned as soon as it is done."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Protocol

import torch
from torch import Tensor

from ragen_agents.engines.base import Completion, EngineError, TokenRequest
from ragen_agents.engines.vllm.api import Finished, sampling_fields
from ragen_agents.engines.weights import check_scores, named_weights, probe, probed


class VllmModel(Protocol):
    """vLLM's copy of a model in this process."""

    precision: str
    """Its arithmetic, a key of ``weights.TOLERANCE``."""

    @property
    def needs_weights(self) -> bool:
        """Whether it has dropped its weights, so that `reload` must come before the next request."""

    def add(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> None:
        """Queue a request; the name is the caller's, the fields those of `sampling_fields`."""

    def step(self) -> list[Finished]:
        """Work for a while on what is queued and return the replies that are done, which may be none."""

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats.

        Called when nothing is queued.
        """

    def reload(self, weights: Iterable[tuple[str, Tensor]], label: str) -> None:
        """Forget what is queued and what was computed with the old weights, and take over new ones.

        Raises:
            EngineError: They did not arrive.
        """

    def sleep(self, keep_weights: bool) -> None:
        """Leave memory to others until the next request, where the device can.

        Args:
            keep_weights: Whether the weights survive; else ``needs_weights`` may be true afterwards.
        """

    def close(self) -> None:
        """End what was begun here."""


class VllmEngine:
    """Generates with vLLM's own copy of the model.

    Rows join and leave its batch at every token. Prompts that extend one another, or that members of a
    group share, are read once: vLLM finds them in its prefix cache by itself.

    Args:
        model: The loaded model.
        stop_token_ids: Tokens that end a turn.
        max_tokens: Most tokens of one reply.
    """

    def __init__(self, model: VllmModel, stop_token_ids: frozenset[int], max_tokens: int) -> None:
        self.version = 0
        self._again = 0
        self._model, self._stop_token_ids, self._max_tokens = model, stop_token_ids, max_tokens
        self._label: str | None = None
        self._source: Any = None
        self._names = count()
        self._asked: dict[str, TokenRequest] = {}

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests; weights that were dropped when the engine rested are handed over again."""
        if requests and self._model.needs_weights:
            self._hand_over()
        for request in requests:
            name = str(next(self._names))
            self._asked[name] = request
            fields = sampling_fields(
                request.seed, request.temperature, self._max_tokens, self._stop_token_ids
            )
            self._model.add(name, request.ids, fields)

    def poll(self) -> list[Completion]:
        """Sample until some replies are done."""
        while self._asked:
            done = self._model.step()
            if done:
                return [self._completion(finished) for finished in done]
        return []

    def sync(self, model: Any, version: int) -> None:
        """Take over the weights of a model, and check that they arrived.

        Raises:
            EngineError: They did not.
        """
        # A rollback brings other weights after the same iteration.
        self._again = self._again + 1 if self._label is not None and version == self.version else 0
        self.version, self._source = version, model
        self._hand_over()

    def release(self) -> None:
        """Leave the device's memory to the trainer, where vLLM can sleep."""
        self._model.sleep(keep_weights=self._label is None)

    def close(self) -> None:
        """End the engine and free its memory."""
        self._model.close()

    def _hand_over(self) -> None:
        model, precision = self._source, self._model.precision
        self._label = f"{self.version}.{self._again}" if self._again else str(self.version)
        self._model.reload(named_weights(model, getattr(torch, precision)), self._label)
        check_scores(probed(model), self._model.score(probe(model)), precision, self.version)

    def _completion(self, finished: Finished) -> Completion:
        if self._label is not None and finished.label != self._label:
            raise EngineError(
                f"a reply was written by weights '{finished.label}', but '{self._label}' was sent"
            )
        return Completion(
            self._asked.pop(finished.name).key, finished.ids, finished.logprobs, finished.finish,
            self.version,
        )  # fmt: skip
