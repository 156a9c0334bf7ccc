"""Errors of requests, by what they affect: this try, this episode, or the run."""

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from openai import APIStatusError

from ragen_envs.errors import RagenError

LONGEST_WAIT: Final = 300.0
"""Most seconds that a server's Retry-After is obeyed."""
_RUN_ON: Final = re.compile(
    r"context.{0,3}(length|window|size|limit)|(prompt|input) is too long|too many (input )?tokens"
    r"|input token count|exceed_context|max_new_tokens.{0,3} must be|must have less than \d+ tokens"
    r"|maximum (model|prompt) length|input length .{0,40}maximum allowed length",
    re.IGNORECASE,
)
"""Messages that mean a prompt is too long: of vLLM, SGLang, llama.cpp, TGI, and hosted services."""


class TroubleError(Exception):
    """This try has failed; the next may not."""


class EmptyAnswerError(TroubleError):
    """The answer is complete and holds no reply, as that of a content filter."""


class UnreachableError(TroubleError):
    """No connection could be made."""


class WebPageError(TroubleError):
    """The answer is a web page."""


class LimitedError(TroubleError):
    """The server asks to be asked less."""

    def __init__(self, message: str, wait: float | None) -> None:
        super().__init__(message)
        self.wait = wait
        """Seconds to wait, as the server wishes, or None."""


class RejectedError(Exception):
    """The server will not answer this request, however often it is sent."""


class PromptTooLongError(Exception):
    """The prompt leaves no room in the model's context."""


class RequestFailedError(Exception):
    """One request failed where others do not: an error of its episode."""


class EndpointError(RagenError):
    """The endpoint answers no request of this run: it is down, or refuses the key or the settings."""


class ForbiddenError(EndpointError):
    """The endpoint does not answer this request for this key: all requests are affected, or one prompt."""


class UnknownModelError(EndpointError):
    """The endpoint does not have the model, or there is no endpoint at this URL."""


def message_of(answer: APIStatusError) -> str:
    """Return the message of an answer that is not a success; the client reads only ``message``.

    Other servers put it into ``detail`` (FastAPI), or as the text itself (text-generation-inference, xAI).
    """
    body = answer.body
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail") or body
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body  # a web page
    return json.dumps(body) if body else ""


def error_of(answer: APIStatusError, message: str, model: str, moved: str) -> Exception:
    """Return the error that an answer without success means.

    Args:
        answer: The answer.
        message: What it says, in one line that may be shown; empty if it says nothing.
        model: Who was asked.
        moved: Where it redirects to, in text that may be shown; empty if it does not say.
    """
    status, code = answer.status_code, f"{answer.code} {answer.type}"
    report = f"HTTP {status}{': ' if message else ''}{message}"
    if 300 <= status < 400:
        return EndpointError(
            f"the endpoint redirects to {moved[:200] or 'an unnamed place'} (HTTP {status}), but redirects "
            "are not followed; to use that endpoint, pass it as --base-url"
        )
    if status == 403:
        return ForbiddenError(f"the endpoint refused the request: {report}")
    if status == 401:
        return EndpointError(f"the endpoint does not accept the key: {report}")
    if status == 402 or "insufficient_quota" in code:
        return EndpointError(f"the account has no credit left: {report}")
    if status == 404 or "model_not_found" in code:
        return _unknown(answer, message, model)
    if status == 429:
        return LimitedError(report, retry_after(answer.response.headers))
    if status in (408, 409, 425) or status >= 500:
        return TroubleError(report)
    if _RUN_ON.search(f"{code} {message}"):
        return PromptTooLongError(report)
    return RejectedError(report)


def first_contact_error(where: str, base_url: str, error: TroubleError) -> EndpointError | None:
    """Return the error of an endpoint that has not answered yet and never will, or None if it may."""
    if isinstance(error, UnreachableError):
        return EndpointError(f"{where} cannot be reached: {error}; check --base-url and the server")
    if not isinstance(error, WebPageError):
        return None
    hint = (
        "check that --base-url is the address of an API, such as http://localhost:8000/v1, and that no "
        "login page is in front of it"
        if base_url.partition("?")[0].endswith("/v1")
        else _needs_v1(base_url)
    )
    return EndpointError(f"{where} answered with a web page instead of JSON; {hint}")


def _needs_v1(base_url: str) -> str:
    url, mark, query = base_url.partition("?")
    return f"the base URL usually ends in /v1: try --base-url {url}/v1{mark}{query}"


def _unknown(answer: APIStatusError, message: str, model: str) -> UnknownModelError:
    status, url = answer.status_code, str(answer.request.url)
    report = f"HTTP {status} from {url}{': ' if message else ''}{message}"
    base = url.partition("?")[0].removesuffix("/chat/completions")
    if model in message:
        return UnknownModelError(report)
    if base.endswith("/v1"):
        return UnknownModelError(f"{report}; does the server have the model '{model}'?")
    _, mark, query = url.partition("?")
    return UnknownModelError(f"{report}; {_needs_v1(f'{base}{mark}{query}')}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, in [0, LONGEST_WAIT]: a number or a date; None if absent."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        text = headers.get(name, "")
        try:
            seconds = float(text) / unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), LONGEST_WAIT)
    return None
