"""What a chat completion says. It comes from elsewhere: bounded, typed, never trusted."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ragen_agents.policies.endpoint.errors import TroubleError
from ragen_agents.policies.endpoint.tools import ToolCall


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _TextPart(_Part):
    text: str = ""


class _Function(_Part):
    name: str
    arguments: str = ""


class _Call(_Part):
    function: _Function


class _Message(_Part):
    content: str | list[_TextPart] | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(_Part):
    message: _Message
    finish_reason: str | None = None


class Usage(_Part):
    """Tokens as the server counted them."""

    prompt_tokens: int = Field(ge=0, le=1 << 40)
    completion_tokens: int = Field(ge=0, le=1 << 40)


class _Completion(_Part):
    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None


_USAGE = TypeAdapter(Usage)


@dataclass(frozen=True)
class Answer:
    """The part of a completion that matters here."""

    text: str
    reasoning: str | None
    """What the model thought apart from its reply."""
    cut_off: bool
    """Whether a token limit cut the reply off."""
    usage: Usage | None
    """None if the server does not say."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of tools."""


def read_answer(body: bytes) -> Answer:
    """Read the body of a completion.

    Raises:
        TroubleError: It is not JSON in UTF-8, or not a completion with a reply.
    """
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TroubleError(f"unreadable answer: {where} {first['msg']}".strip()) from None
    choice = completion.choices[0]
    thoughts = choice.message.reasoning_content or choice.message.reasoning
    return Answer(
        text=_text(choice.message.content),
        reasoning=thoughts if isinstance(thoughts, str) else None,
        cut_off=choice.finish_reason == "length",
        usage=_usage(completion.usage),
        calls=tuple(
            ToolCall(call.function.name, call.function.arguments)
            for call in choice.message.tool_calls or ()
        ),
    )


def _text(content: str | list[_TextPart] | None) -> str:
    """Return the text of a reply, which some servers send in parts."""
    return "".join(part.text for part in content) if isinstance(content, list) else content or ""


def _usage(found: Any) -> Usage | None:
    try:
        return _USAGE.validate_python(found)
    except ValidationError:
        return None
