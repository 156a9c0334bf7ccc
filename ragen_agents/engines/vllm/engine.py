"""Rollouts by vLLM: each reply is returned as soon as it is done."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import torch

from ragen_agents.engines.base import Completion, EngineError, TokenRequest
from ragen_agents.engines.vllm.api import Finished, sampling_fields
from ragen_agents.engines.vllm.local import LocalModel
from ragen_agents.engines.weights import check_scores, named_weights, probe, probed


class VllmEngine:
    """Generates with vLLM's own copy of the model.

    Rows join and leave its batch at every token. Prompts that extend one another, or that members of a
    group share, are read once: vLLM finds them in its prefix cache by itself.
    """

    def __init__(
        self, model: LocalModel, stop_token_ids: frozenset[int], max_tokens: int,
        stop: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._stop = stop
        self.version = 0
        self._again = 0
        self._model, self._stop_token_ids, self._max_tokens = model, stop_token_ids, max_tokens
        self._label: str | None = None
        self._source: Any = None
        self._names = count()
        self._asked: dict[str, TokenRequest] = {}

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests; weights that were dropped while the engine slept are sent again."""
        if requests and self._model.needs_weights:
            self._hand_over()
        for request in requests:
            name = str(next(self._names))
            self._asked[name] = request
            fields = sampling_fields(
                request.seed, request.temperature, self._max_tokens, self._stop_token_ids,
                self._stop,
            )  # fmt: skip
            self._model.add(name, request.ids, fields)

    def poll(self) -> list[Completion]:
        """Sample until some replies are done."""
        while self._asked:
            if done := self._model.step():
                return [self._completion(name, finished) for name, finished in done.items()]
        return []

    def sync(self, model: Any, version: int) -> None:
        """Load the weights of a model, and check that they arrived.

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

    def _completion(self, name: str, finished: Finished) -> Completion:
        if self._label is not None and finished.label != self._label:
            raise EngineError(
                f"a reply was written by weights '{finished.label}', but '{self._label}' was sent"
            )
        return Completion(
            self._asked.pop(name).key, finished.ids, finished.logprobs, finished.finish,
            self.version,
        )  # fmt: skip
