"""What an endpoint is asked, which decides results, and how it is talked to, which does not."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from ragen_envs.game.errors import RagenError

OPENAI_URL: Final = "https://api.openai.com/v1"
_OURS: Final = ("messages", "model", "n", "stream")


class EndpointSettings(BaseModel):
    """What decides an endpoint's replies, besides the model, its sampling and the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    base_url: str = OPENAI_URL
    """Where ``/chat/completions`` is; see `check_base_url`."""
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default=[], max_length=16)
    """Texts at which the model stops."""
    extra_body: dict[str, JsonValue] = {}
    """Merged into every request (RFC 7396): null takes a field out, an object is merged."""

    tools: bool = Field(default=False, exclude_if=lambda tools: not tools)
    """Whether the model acts by calls of a tool instead of text; omitted if not."""

    @field_validator("extra_body")
    @classmethod
    def _leaves_ours(cls, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in _OURS:
            if name in body:
                raise ValueError(f"'{name}' is set by the harness")
        return body


@dataclass(frozen=True)
class Connection:
    """How an endpoint is talked to. Nothing here decides a reply."""

    timeout: float = 180.0
    """Seconds that one request may take, > 0."""
    max_retries: int = 9
    """How often a request that fails is sent again, >= 0."""
    concurrency: int = 32
    """Episodes that are open at most, and so requests in flight, >= 1."""

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise RagenError(f"timeout is {self.timeout!r}, but must be a number of seconds > 0")
        for name, least in (("max_retries", 0), ("concurrency", 1)):
            if (value := getattr(self, name)) < least:
                raise RagenError(f"{name} is {value!r}, but must be an integer >= {least}")


def check_base_url(url: str) -> str:
    """Return the URL of an endpoint without a trailing slash.

    Raises:
        RagenError: It is no http(s) URL, or has a place where passwords are put; the message does
            not repeat it.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or any(c.isspace() for c in url):
        raise RagenError("base URL must be an http or https URL, such as http://localhost:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise RagenError(
            "base URL must have no user, password, query or fragment, because it is recorded; "
            "keys come from the environment"
        )
    return url.rstrip("/")
