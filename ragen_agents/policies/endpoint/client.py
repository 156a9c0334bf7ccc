"""One request to an endpoint: sent by the openai client, bounded in time and size, read with typed errors.

An answer comes from elsewhere and is never trusted.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

import httpx2
from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, field_validator

from ragen_agents.bounded_http import bounded
from ragen_agents.policies.endpoint.errors import (
    EmptyAnswerError,
    PromptTooLongError,
    TroubleError,
    UnreachableError,
    WebPageError,
    error_of,
    message_of,
)
from ragen_agents.policies.endpoint.settings import Connection, Key
from ragen_agents.policies.endpoint.tools import ToolCall

_CUT_OFF: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_OUT_OF_CONTEXT: Final = frozenset({"model_context_window_exceeded", "model_length"})
_FILTERED: Final = frozenset(
    {
        "content_filter", "safety", "sensitive", "refusal", "recitation", "prohibited_content", "blocklist",
    }
)  # fmt: skip
"""Reasons, in lower case, for which a filter ends or withholds a reply."""
_FINISHED: Final = _FILTERED | {
    "", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete",
    "tool_calls", "tool_use", "function_call",
}  # fmt: skip
"""Reasons, in lower case, for which servers end a reply that the model has finished or a filter has taken."""
MAX_ANSWER: Final = 1 << 22
"""Most bytes of an answer; 65 536 characters are the most that a reply may have."""
_MAX_MESSAGE: Final = 300


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _ContentPart(_Part):
    text: str | None = None
    thinking: Any = None
    """Parts again, or a text: how Mistral sends what a model thought."""


class _Function(_Part):
    name: str | None = None
    """None in what some servers send beside a text instead of no call."""
    arguments: str = ""

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, arguments: object) -> object:
        """Return arguments as JSON text. Some servers send an object, or null if there are none."""
        if arguments is None:
            return ""
        return json.dumps(arguments) if isinstance(arguments, dict) else arguments


class _Call(_Part):
    function: _Function


class _Message(_Part):
    content: str | list[_ContentPart] | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(_Part):
    message: _Message | None
    finish_reason: str | None = None
    error: Any = None


class Usage(_Part):
    """Tokens as the server counted them."""

    prompt_tokens: int = Field(ge=0, le=1 << 40)
    completion_tokens: int = Field(ge=0, le=1 << 40)
    total_tokens: int | None = Field(default=None, ge=0, le=1 << 40)

    @property
    def written(self) -> int:
        """Tokens that the model wrote, with thoughts that some servers count in the total alone."""
        return max(self.completion_tokens, (self.total_tokens or 0) - self.prompt_tokens)


def _or_none(given: Any, validate: Callable[[Any], Any]) -> Any:
    """Return what a part of an answer says, or None if it is malformed."""
    try:
        return validate(given)
    except ValidationError:
        return None


class _Counted(_Part):
    usage: Annotated[Usage | None, WrapValidator(_or_none)] = None
    error: Any = None


class _Completion(_Counted):
    choices: list[_Choice]


@dataclass(frozen=True)
class Answer:
    """The part of a completion that matters here."""

    text: str
    reasoning: str | None
    """The reasoning beside the reply."""
    cut_off: bool
    """Whether a token limit cut the reply off."""
    usage: Usage | None
    """None if the server does not say."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools."""
    filtered: bool = False
    """Whether a content filter withheld the reply."""


def read_answer(body: bytes) -> Answer:
    """Read the body of a completion.

    Raises:
        TroubleError: It is not JSON in UTF-8, not a completion with a reply, or the server reports that it
            failed to complete the reply.
        EmptyAnswerError: It is a completion without a reply.
        PromptTooLongError: The reply ran into the end of the model's context.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        _check_no_error(body)
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TroubleError(f"unreadable answer: {where} {first['msg']}".strip()) from None
    if not completion.choices:
        _check_no_error(body)
        raise EmptyAnswerError("the answer has no choices")
    choice = completion.choices[0]
    reason = (choice.finish_reason or "").lower()
    _check_finished(choice, reason)
    message = choice.message
    if message is None:
        if reason not in _FILTERED:
            raise EmptyAnswerError("the answer has no message")
        message = _Message()
    text = _text(message.content)
    calls = tuple(
        ToolCall(call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
        if call.function.name is not None
    )
    return Answer(
        text=text,
        reasoning=_thoughts(message),
        cut_off=reason in _CUT_OFF,
        usage=completion.usage,
        calls=calls,
        filtered=reason in _FILTERED and not (text or calls),
    )


def _check_no_error(body: bytes) -> None:
    """Raise the error that a server reports in place of a completion, although the status is 200."""
    failure = _or_none(body, _Counted.model_validate_json)
    if failure is not None and failure.error:
        raise _reported(failure.error)


def _reported(error: Any) -> TroubleError:
    message = error.get("message") if isinstance(error, dict) else None
    return TroubleError(f"the server reports an error in its answer: {message or error}")


def _check_finished(choice: _Choice, reason: str) -> None:
    """Raise unless the model or its limit of tokens has ended the reply."""
    if choice.error:
        raise _reported(choice.error)
    if reason in _OUT_OF_CONTEXT:
        raise PromptTooLongError(f"the reply ended with finish_reason '{reason}'")
    if reason not in _FINISHED | _CUT_OFF:
        raise TroubleError(f"the server did not complete its reply: finish_reason '{choice.finish_reason}'")


def _text(content: str | list[_ContentPart] | None) -> str:
    """Return the text of a reply, which some servers send in parts."""
    return "".join(part.text or "" for part in content) if isinstance(content, list) else content or ""


def _thoughts(message: _Message) -> str | None:
    """Return the reasoning beside the reply, in whatever field a server sends it."""
    thoughts = message.reasoning_content or message.reasoning
    if not thoughts and isinstance(message.content, list):
        thoughts = "".join(_thought(part.thinking) for part in message.content) or None
    return thoughts if isinstance(thoughts, str) else None


def _thought(thinking: Any) -> str:
    if isinstance(thinking, list):
        return "".join(_thought(part.get("text")) for part in thinking if isinstance(part, dict))
    return thinking if isinstance(thinking, str) else ""


class Client:
    """Asks one endpoint. No text that it returns or raises shows the key."""

    def __init__(self, base_url: str, key: Key, connection: Connection) -> None:
        self._key = key
        self._timeout = connection.timeout
        self.unused: list[Usage] = []
        """Usage of paid answers that are no reply of an episode, until it is counted."""
        open_at_most = httpx2.Limits(
            max_connections=connection.concurrency, max_keepalive_connections=connection.concurrency
        )
        url, _, query = base_url.partition("?")
        self._client = AsyncOpenAI(
            api_key=key.value,
            base_url=url,
            timeout=connection.timeout,
            max_retries=0,
            default_headers={**key.headers, "Accept-Encoding": "identity"},
            default_query=dict(parse_qsl(query, keep_blank_values=True)),
            http_client=DefaultAsyncHttpxClient(
                limits=open_at_most,
                follow_redirects=False,  # prompts go to the host that was named, and to no other
                timeout=connection.timeout,
                event_hooks={"response": [bounded(MAX_ANSWER)]},
            ),
        )

    async def ask(self, body: dict[str, Any]) -> Answer:
        """Send a chat completion's body once and return what was answered.

        Raises:
            TroubleError: There was no answer, or none that can be read, or one to ask again later.
            RejectedError, PromptTooLongError, RagenError: See `error_of`.
        """
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        except TimeoutError:
            raise TroubleError(f"no answer in {self._timeout:g} s") from None
        except APIStatusError as error:
            moved = self._line(error.response.headers.get("location", ""))
            message = self._line(message_of(error))
            raise error_of(error, message, str(body.get("model")), moved) from None
        except APIConnectionError as error:
            cause = error.__cause__ or error
            kind = UnreachableError if isinstance(cause, httpx2.ConnectError) else TroubleError
            raise kind(self._line(f"{type(cause).__name__} {cause}")) from None
        except APIError as error:
            raise TroubleError(self._line(error.message)) from None
        try:
            return self._covered(read_answer(response.content))
        except (TroubleError, PromptTooLongError) as error:
            counted = _or_none(response.content, _Counted.model_validate_json)
            if counted is not None and counted.usage is not None:
                self.unused.append(counted.usage)
            if not isinstance(error, TroubleError) or isinstance(error, EmptyAnswerError):
                raise
            if response.headers.get("content-type", "").lower().startswith("text/html"):
                raise WebPageError("the answer is a web page") from None
            raise TroubleError(self._line(str(error))) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _covered(self, answer: Answer) -> Answer:
        reasoning = None if answer.reasoning is None else self._key.hide(answer.reasoning)
        calls = tuple(
            ToolCall(self._key.hide(call.name), self._key.hide(call.arguments)) for call in answer.calls
        )
        return replace(answer, text=self._key.hide(answer.text), reasoning=reasoning, calls=calls)

    def _line(self, message: str) -> str:
        return self._key.hide(" ".join(message.split()))[:_MAX_MESSAGE]
