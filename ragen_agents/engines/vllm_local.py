"""Rollouts by vLLM in this process: each reply is returned as soon as it is done."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from ragen_agents.engines.base import Completion, EngineError, TokenRequest
from ragen_agents.engines.vllm_api import Finished, LocalModel, sampling_fields
from ragen_agents.engines.weights import check_arrival, named_weights, probe


class VllmEngine:
    """Generates with vLLM's own copy of the model.

    Rows join and leave its batch at every token. Prompts that extend one another, or that members of a
    group share, are read once: vLLM finds them in its prefix cache by itself.

    Args:
        model: The loaded model.
        ends: Tokens that end a turn.
        max_tokens: Most tokens of one reply.
    """

    def __init__(self, model: LocalModel, ends: frozenset[int], max_tokens: int) -> None:
        self.version = 0
        self._model, self._ends, self._max_tokens = model, ends, max_tokens
        self._label: str | None = None
        self._names = count()
        self._asked: dict[str, int] = {}

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""
        for request in requests:
            name = str(next(self._names))
            fields = sampling_fields(
                request.seed, request.temperature, self._max_tokens, self._ends
            )
            self._model.add(name, request.ids, fields)
            self._asked[name] = request.key

    def poll(self) -> list[Completion]:
        """Sample until some replies are done."""
        while self._asked:
            done = [self._completion(finished) for finished in self._model.step()]
            if done:
                return done
        return []

    def sync(self, model: Any, version: int) -> None:
        """Take over the weights of a model, and check that they arrived.

        Raises:
            EngineError: They did not.
        """
        self._model.reload(named_weights(model), str(version))
        self.version, self._label = version, str(version)
        check_arrival(model, self._model.score(probe(model)), self._model.precision, version)

    def rest(self) -> None:
        """Leave the device's memory to the trainer, where vLLM can sleep."""
        self._model.sleep()

    def close(self) -> None:
        """End the engine and free its memory."""
        self._model.close()

    def _completion(self, finished: Finished) -> Completion:
        if self._label is not None and finished.label != self._label:
            raise EngineError(
                f"a reply was written by weights '{finished.label}', but version {self.version} was sent"
            )
        return Completion(
            self._asked.pop(finished.name), finished.ids, finished.logprobs, finished.finish,
            self.version,
        )  # fmt: skip
