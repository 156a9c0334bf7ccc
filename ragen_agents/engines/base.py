"""The protocol between what collects trajectories and what generates tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class TokenRequest:
    """A prompt that waits for a reply, in tokens."""

    key: int
    """Who asks. Requests of one key extend one another, which lets engines keep what they computed."""
    ids: list[int]
    """The whole prompt."""
    seed: int
    """Seed of this reply's draws, in [0, 2^63)."""


@dataclass(frozen=True)
class Completion:
    """A reply, in tokens."""

    key: int
    ids: list[int]
    """What was sampled, with the token that ends a turn if the model wrote one."""
    logprobs: list[float]
    """Log-probability of each token under the distribution that it was drawn from, in nats."""
    finish: Literal["stop", "length"]
    """stop: the model ended its turn. length: the token limit did."""
    version: int
    """Version of the weights that wrote it."""


class Engine(Protocol):
    """Generates replies.

    The caller submits requests, polls until every key has its completion, and may submit new requests
    in between. A completion depends on the prompt, the seed and the weights only.
    """

    version: int
    """Version of the weights in use, set by ``sync``."""

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""

    def poll(self) -> list[Completion]:
        """Work until at least one request is complete and return all that are; [] if none is queued."""

    def sync(self, model: Any, version: int) -> None:
        """Take over the weights of a model and forget all that was computed with earlier ones."""
