"""The one protocol of everything that plays: a batch of conversations in, a batch of replies out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ragen_envs.conversation import Playable


@dataclass(frozen=True)
class Request:
    """A conversation that waits for a reply."""

    messages: list[dict[str, str]]
    """Chat messages with the keys ``role`` and ``content``, ending with the user's."""
    seed: int
    """Seed of this reply's draws, in [0, 2^63); the only randomness that a policy may use."""
    conversation: Playable
    """The env itself, or a seat of it. Only controls (random, oracle) may look into it; agents see
    ``messages``."""


@dataclass(frozen=True)
class Reply:
    """What a policy says."""

    text: str
    prompt_tokens: int | None = None
    """Tokens of the prompt, or None for policies without tokens."""
    reply_tokens: int | None = None
    """Tokens of the reply, or None for policies without tokens."""
    cut_off: bool = False
    """Whether a token limit cut the reply off."""
    overflow: bool = False
    """Whether the prompt left no room in the model's context; the text is then ignored."""


class Policy(Protocol):
    """Something that plays."""

    name: str
    """How tables call it."""
    batch_size: int
    """How many conversations ``act`` is given at most."""

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Return one reply for each request, in their order.

        Replies depend on the requests' messages and seeds only, not on earlier calls.
        """


@dataclass(frozen=True)
class Sampling:
    """How a language model decodes."""

    temperature: float = 0.5
    """0 is greedy decoding (paper: 0.5 in evaluation, 1 in training)."""
    max_tokens: int = 256
    """Most tokens of one reply."""
