"""The protocols of everything that plays: conversations in, replies out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, get_args, get_type_hints, runtime_checkable

from ragen_envs.conversation import Conversation, Picture
from ragen_envs.errors import RagenError


@dataclass(frozen=True)
class Request:
    """A conversation that waits for a reply."""

    messages: list[dict[str, str]]
    """Chat messages with the keys ``role`` and ``content``, ending with the user's."""
    seed: int
    """Seed of this reply's draws, in [0, 2^63); the only randomness that a policy may use."""
    conversation: Conversation
    """The env itself, or a seat of it. Only controls (random, oracle) and interventions may look into it;
    agents in Python get one that raises `AttributeError` instead."""
    pictures: tuple[Picture, ...] = ()
    """The picture beside each user message; () if observations are text."""
    prefix: str = ""
    """The beginning of the assistant's turn, which the reply continues: ``<think>`` or nothing."""


def merge_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a chat in which the text of the system message begins the first user message.

    A user message that is a list of parts gets it as its first part.
    """
    merged = [dict(message) for message in messages]
    if len(merged) < 2 or (merged[0]["role"], merged[1]["role"]) != ("system", "user"):
        return merged
    text, content = f"{merged[0]['content']}\n\n", merged[1]["content"]
    both = text + content if isinstance(content, str) else [{"type": "text", "text": text}, *content]
    return [{**merged[1], "content": both}, *merged[2:]]


MAX_TOKENS: Final = 1 << 40
"""Most tokens of a prompt or a reply that a record may state."""
MAX_SECONDS: Final = 1 << 32
"""Most seconds of a reply, so that no sum overflows."""


@dataclass(frozen=True)
class Reply:
    """The reply of a policy, which is part of the episode's record.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A number is out of range, or a text cannot be encoded in UTF-8.
    """

    text: str
    prompt_tokens: int | None = None
    """Tokens of the prompt, or None for policies without tokens."""
    reply_tokens: int | None = None
    """Tokens of the reply, or None for policies without tokens."""
    cut_off: bool = False
    """Whether a token limit cut the reply off."""
    overflow: bool = False
    """Whether the prompt left no room in the model's context; the text is then ignored."""
    reasoning: str | None = None
    """The reasoning beside the text, or None."""
    tokens_estimated: bool = False
    """Whether the token counts are estimates."""
    filtered: bool = False
    """Whether a content filter withheld the reply; the text is then empty."""
    seconds: float | int | None = None
    """Seconds that the reply took where waiting for the policy is no measure of it, else None."""

    def __post_init__(self) -> None:
        for name, kinds in _TYPES.items():
            value = getattr(self, name)
            if type(value) not in kinds and not (kinds[0] is str and isinstance(value, str)):
                known = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
                raise TypeError(f"the reply's {name} is {value!r:.80}, but must be {known}")
        for name in ("prompt_tokens", "reply_tokens", "seconds"):
            value, most = getattr(self, name), MAX_SECONDS if name == "seconds" else MAX_TOKENS
            if value is not None and not 0 <= value <= most:
                raise ValueError(f"the reply's {name} is {value}, but must be in [0, {most}]")
        self.text.encode()
        if self.reasoning is not None:
            self.reasoning.encode()


def check_reply(reply: object) -> Reply:
    """Return what a policy of one's own gave; raises `TypeError` if it is no `Reply`."""
    if not isinstance(reply, Reply):
        raise TypeError(f"the policy returned {reply!r:.80}, but must return a Reply")
    return reply


_TYPES: Final = {name: get_args(hint) or (hint,) for name, hint in get_type_hints(Reply).items()}


class Policy(Protocol):
    """A policy that plays many conversations in a batch, such as a model in this process."""

    name: str
    """Name in tables."""
    batch_size: int
    """Most conversations that ``act`` is given."""

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Return one reply for each request, in their order.

        Replies depend on the requests' messages and seeds only, not on earlier calls.
        """


@runtime_checkable
class Releasable(Protocol):
    """A policy that keeps something between the turns of conversations, such as a KV cache."""

    def release(self) -> None:
        """Release it, because these conversations are over."""


@runtime_checkable
class AsyncPolicy(Protocol):
    """A policy that plays each conversation independently, such as a model behind an endpoint."""

    name: str
    """Name in tables."""
    concurrency: int
    """Most conversations that are open at once."""

    async def reply(self, request: Request) -> Reply:
        """Return the reply to one request; many calls run concurrently.

        A reply depends on the request's messages, pictures and seed only.

        Raises:
            BudgetReachedError: The budget does not allow another reply.
            RagenError: The run cannot continue; any other exception ends this episode only.
        """

    async def close(self) -> None:
        """Close connections; called once, in the event loop that requested the replies."""


class BudgetReachedError(RagenError):
    """A limit on cost, tokens or time was reached; the run has not failed and can be resumed."""


@dataclass(frozen=True)
class Sampling:
    """Sampling of a language model."""

    temperature: float = 0.5
    """0 is greedy decoding (paper: 0.5 in evaluation, 1 in training)."""
    max_tokens: int = 256
    """Most tokens of one reply."""
    stop: tuple[str, ...] = ()
    """Texts at which a reply ends; it is without them, as those of vLLM and of servers."""


_CLOSING: Final = "</answer>"


def closed(text: str, stop: Iterable[str]) -> str:
    """Return a reply that a stop text may have ended, with the tag ``</answer>`` if that was left out."""
    lower = text.casefold()
    is_open = lower.rfind("<answer>") > lower.rfind(_CLOSING)
    closes = any(each.strip().casefold() == _CLOSING for each in stop)
    return text + _CLOSING if is_open and closes else text
