"""The settings, the connection and the key of an endpoint.

`EndpointSettings` decide results and are recorded, a `Connection` does not. The key is read from the
environment, sent to the endpoint, and nowhere else.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from ragen_envs.errors import RagenError

OPENAI_URL: Final = "https://api.openai.com/v1"
_OURS: Final = ("messages", "model", "n", "stream")
KEY_VARIABLE: Final = "OPENAI_API_KEY"
_HIDDEN: Final = "[key]"
_SHORTEST: Final = 8
"""Shorter ones are words that stand for no key, such as EMPTY, and may well be part of a reply."""


StopTexts = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)]


class EndpointSettings(BaseModel):
    """Settings that decide an endpoint's replies, besides the model, its sampling and the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    base_url: str = OPENAI_URL
    """Address above ``/chat/completions``; see `check_base_url`."""
    also_at: list[str] = Field(default=[], exclude_if=lambda urls: not urls)
    """Further addresses at which the run was resumed; omitted if none. An address decides no reply."""
    stop: StopTexts = []
    """Texts at which the model stops."""
    extra_body: dict[str, JsonValue] = {}
    """Merged into every request (RFC 7396): null takes a field out, an object is merged."""

    tools: bool = Field(default=False, exclude_if=lambda tools: not tools)
    """Whether the model acts by calls of a tool instead of text; omitted if not."""
    system: Literal["role", "merge"] = Field(default="role", exclude_if=lambda s: s == "role")
    """Whether the system message has a role of its own, or its text begins the first user message; omitted
    if it has."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_ours(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in _OURS:
            if name in body:
                raise ValueError(f"'{name}' is set by the harness")
        return body


ADDRESSES: Final = {"base_url", "also_at"}
"""Fields that decide no reply."""


_SECRET_FIELD: Final = re.compile(
    r"authorization|authentication|credential|passw(or)?d|passphrase|secret"
    r"|(api|access|private|subscription)[ _-]?(key|token)|^key$"
    r"|(^|[ _-])(auth|bearer|cookie|pwd|signature)$"
    r"|(^|(?<!bos)(?<!eos)(?<!pad)(?<!stop)[ _-])token$",
    re.IGNORECASE,
)
"""Names of fields that may hold a secret; ``max_tokens``, ``eos_token`` and ``authors`` are none."""


def check_secrets(body: JsonValue) -> None:
    """Raise `RagenError` if a field of ``extra_body``, which is recorded, is named like a secret."""
    secret = next(filter(_SECRET_FIELD.search, _names(body)), None)
    if secret is not None:
        raise RagenError(
            f"extra_body has the field '{secret:.60}', but it is recorded and must hold no secret; keys come "
            "from the environment, see --api-key-env and --header"
        )


def _names(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _names(inner)


@dataclass(frozen=True)
class Connection:
    """Limits of the connection to an endpoint. Nothing here decides a reply."""

    timeout: float = 180.0
    """Seconds that one request may take, > 0."""
    max_retries: int = 9
    """Most retries of a request that fails, >= 0."""
    concurrency: int = 32
    """Episodes that are open at most, and so requests in flight, >= 1."""

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise RagenError(f"timeout is {self.timeout!r}, but must be a number of seconds > 0")
        for name, least in (("max_retries", 0), ("concurrency", 1)):
            if (value := getattr(self, name)) < least:
                raise RagenError(f"{name} is {value!r}, but must be an integer >= {least}")


_PATH: Final = "/chat/completions"
_SECRET: Final = re.compile(r"key|token|secret|sig|password|auth|code", re.IGNORECASE)
"""Parts of names of parameters whose value should not be recorded."""


def check_base_url(url: str) -> str:
    """Return the URL of an endpoint without a trailing slash and without ``/chat/completions``."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or any(c.isspace() for c in url):
        raise RagenError("base URL must be an http or https URL, such as http://localhost:8000/v1")
    secret = any(_SECRET.search(name) for name, _ in parse_qsl(parts.query, True))
    if "@" in parts.netloc or parts.fragment or secret:
        raise RagenError(
            "base URL must have no user, password, key or fragment, because it is recorded; "
            "keys come from the environment, see --api-key-env and --header"
        )
    path = parts.path.rstrip("/").removesuffix(_PATH).rstrip("/")
    return urlunsplit(parts._replace(path=path))


@dataclass(frozen=True)
class Key:
    """A key, or what is sent in place of one, and further headers."""

    value: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of headers by name."""

    def hide(self, text: str) -> str:
        """Return a text, such as a server's answer, in which the key and the headers are covered."""
        for secret in (self.value, *self.headers.values()):
            text = text.replace(secret, _HIDDEN) if len(secret) >= _SHORTEST else text
        return text

    def is_in(self, text: str) -> bool:
        """Return whether a text shows the key or a header."""
        return self.hide(text) != text


def read_key(base_url: str, variable: str = KEY_VARIABLE, headers: Mapping[str, str] | None = None) -> Key:
    """Return the key for an endpoint; one that is not OpenAI's may need none."""
    value = os.environ.get(variable, "").strip()
    if not value:
        if base_url == OPENAI_URL or variable != KEY_VARIABLE:
            raise RagenError(f"there is no key: set {_named(variable, '--api-key-env')}")
        value = "none"
    if not re.fullmatch(r"[!-~]+", value):
        raise RagenError(f"the key in {variable} must be printable ASCII without white space")
    return Key(value, {name: _header(name, source) for name, source in (headers or {}).items()})


def _named(variable: str, option: str) -> str:
    """Return the name of a variable that is not set, which may be a key in the wrong place."""
    if re.fullmatch(r"[A-Z_][A-Z0-9_]{0,39}", variable):
        return f"the environment variable {variable}"
    return f"the environment variable whose name, not its value, {option} must give"


def _header(name: str, variable: str) -> str:
    value = os.environ.get(variable, "").strip()
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise RagenError(f"'{name}' is not the name of a header")
    if not re.fullmatch(r"[ -~]+", value):
        raise RagenError(f"the header {name} must be printable ASCII: set {_named(variable, '--header')}")
    return value
