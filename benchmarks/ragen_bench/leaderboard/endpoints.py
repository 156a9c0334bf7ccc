"""The settings of an endpoint in an entry: what is published of them, and how pages show it."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_envs.game.errors import RagenError

_SECRET: Final = re.compile(
    r"authorization|authentication|credential|passw(or)?d|passphrase|secret"
    r"|(api|access|private|subscription)[ _-]?(key|token)|^key$"
    r"|(^|[ _-])(auth|bearer|cookie|pwd|signature)$"
    r"|(^|(?<!bos)(?<!eos)(?<!pad)(?<!stop)[ _-])token$",
    re.IGNORECASE,
)
"""Names of fields that may hold a secret; ``max_tokens``, ``eos_token`` and ``authors`` are none."""


def published_settings(endpoint: EndpointSettings | None) -> EndpointSettings | None:
    """Return what decides an endpoint's replies, without its address.

    Raises:
        RagenError: A field of ``extra_body`` is named like a secret.
    """
    if endpoint is None:
        return None
    secret = next(filter(_SECRET.search, _names(endpoint.extra_body)), None)
    if secret is not None:
        raise RagenError(
            f"extra_body has the field '{secret:.60}', but an entry publishes extra_body, so it must hold no "
            "secret; play the run without it"
        )
    return EndpointSettings.model_validate(endpoint.model_dump(exclude={"base_url"}))


def _names(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _names(inner)


def endpoint_words(endpoint: EndpointSettings) -> list[str]:
    """Return in words what requests have besides the sampling, such as ``stop ["###"]``."""
    words = [f"stop {json.dumps(endpoint.stop)}"] if endpoint.stop else []
    if endpoint.extra_body:
        words.append(f"every request merged with {json.dumps(endpoint.extra_body)}")
    if endpoint.tools:
        words.append("acts by tool calls")
    return words


def endpoint_options(endpoint: EndpointSettings) -> list[str]:
    """Return the options of ``ragen bench`` that make these settings, quoted for a shell."""
    words = [word for text in endpoint.stop for word in ("--stop", _quoted(text))]
    if endpoint.extra_body:
        words += ["--extra-body", shlex.quote(json.dumps(endpoint.extra_body))]
    if endpoint.tools:
        words.append("--tools")
    return words


def _quoted(text: str) -> str:
    """Return a text as a shell reads it, on one line."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + json.dumps(text)[1:-1].replace("'", r"\'") + "'"
