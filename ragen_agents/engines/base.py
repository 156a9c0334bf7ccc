"""The protocol between the collection of trajectories and the engines that generate tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ragen_envs.errors import RagenError


@dataclass(frozen=True)
class TokenRequest:
    """A prompt that waits for a reply, in tokens."""

    key: int
    """Number of the requester; the completion has the same."""
    ids: list[int]
    """The whole prompt."""
    seed: int
    """Seed of this reply's draws, in [0, 2^63)."""
    temperature: float
    """Sampling temperature; 0 for greedy decoding."""


@dataclass(frozen=True)
class Completion:
    """A reply, in tokens."""

    key: int
    ids: list[int]
    """The sampled tokens, with the one that ends a turn if the model wrote one; each below the size of the
    model's vocabulary."""
    logprobs: list[float] | None
    """Log-probability of each token under the distribution that it was drawn from, in nats; of greedy
    decoding, under the model's own; None where they are not known, and then nothing corrects for the
    difference from the trainer's."""
    finish: Literal["stop", "length"]
    """stop: the model ended its turn. length: the token limit did."""
    version: int
    """Version of the weights that wrote it."""
    entropies: list[float] | None = None
    """Entropy of the distribution that each token was drawn from, in nats; None where it is not known."""


class EngineError(RagenError):
    """An engine failed; its requests can be sent again once it is repaired."""


class Engine(Protocol):
    """Generates replies.

    The caller submits requests, polls until every key has its completion, and may submit new requests
    in between: some engines complete all queued requests together, others each one as soon as it is
    done. A completion depends on the prompt, the seed, the temperature and the weights only; on a GPU the
    other requests may change the rounding of its logits.
    """

    version: int
    """Version of the weights in use, set by ``sync``."""

    def submit(self, requests: Sequence[TokenRequest]) -> None:
        """Queue requests."""

    def poll(self) -> list[Completion]:
        """Work until at least one request is complete and return all that are; [] if none is queued."""

    def sync(self, model: Any, version: int) -> None:
        """Load the weights of a model and discard everything computed with earlier ones.

        Raises:
            EngineError: The weights could not be transferred.
        """

    def release(self) -> None:
        """Release memory until the next request; called when nothing is queued."""

    def close(self) -> None:
        """Shut the engine down."""
