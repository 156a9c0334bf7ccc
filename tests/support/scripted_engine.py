"""An engine without a model, for tests: a function says what is written."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ragen_agents.engines.base import Completion, TokenRequest


class ScriptedEngine:
    """Answers each request by a function of it, one request a poll, the latest first.

    Args:
        write: Returns the tokens of the reply.
        stop_token_ids: Tokens that end a turn.
    """

    def __init__(self, write: Callable[[TokenRequest], list[int]], stop_token_ids: frozenset[int]) -> None:
        self.version = 0
        self._write = write
        self._stop_token_ids = stop_token_ids
        self._queue: list[TokenRequest] = []

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""
        self._queue.extend(requests)

    def poll(self) -> list[Completion]:
        """Answer the request that came last."""
        if not self._queue:
            return []
        request = self._queue.pop()
        ids = self._write(request)
        stopped = bool(ids) and ids[-1] in self._stop_token_ids
        finish: Literal["stop", "length"] = "stop" if stopped else "length"
        return [Completion(request.key, ids, [0.0] * len(ids), finish, self.version)]

    def sync(self, model: Any, version: int) -> None:
        """Take over the version; there are no weights."""
        self.version = version

    def release(self) -> None:
        """Do nothing; there is no memory to free."""

    def close(self) -> None:
        """Do nothing."""
