"""A model behind an endpoint: requests, retries, and whether endpoint or prompt caused a failure."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ragen_agents.pictures import data_url
from ragen_agents.policies.base import Reply, Request, Sampling, closed, merge_system
from ragen_agents.policies.endpoint.client import Answer, Client
from ragen_agents.policies.endpoint.errors import (
    EmptyAnswerError,
    EndpointError,
    ForbiddenError,
    LimitedError,
    PromptTooLongError,
    RejectedError,
    RequestFailedError,
    TroubleError,
    UnknownModelError,
    first_contact_error,
)
from ragen_agents.policies.endpoint.settings import Connection, EndpointSettings, Key
from ragen_agents.policies.endpoint.tools import as_calls, reply_text, tools_of
from ragen_agents.run_files.yaml_files import merged
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.endpoint")
FIRST_DELAY: Final = 0.5
"""Seconds before the first retry; doubled for each further one."""
LONGEST_DELAY: Final = 60.0
_PROBE_RETRIES: Final = 2
_SEEDS: Final = 1 << 31
"""Seeds of more than 31 bits are not taken by every server."""
_CHARACTERS_PER_TOKEN: Final = 4
_CONTINUE: Final = {"continue_final_message": True, "add_generation_prompt": False}
"""Fields by which vLLM and SGLang continue the last message; others do so by themselves."""


class Gate:
    """A semaphore that adapts.

    The rule is that of TCP (Chiu and Jain 1989): multiplicative decrease, once for all requests that were in
    flight together, and additive increase.
    """

    def __init__(self, most: int) -> None:
        self.limit = float(most)
        self._most = most
        self._open = 0
        self._slowed = self._until = float("-inf")
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait until a request may be sent; the block sends it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._open < int(self.limit))
            self._open += 1
        try:
            while (wait := self._until - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            yield
        finally:
            self._open -= 1
            async with self._changed:
                self._changed.notify(2)  # the place that is free, and one that may have been added

    def slow_down(self, sent: float, wait: float | None) -> None:
        """Send less, and for so many seconds nothing.

        Args:
            sent: When the request that was turned down was sent, as `time.monotonic` tells it.
            wait: Seconds that the server asks for, or None.
        """
        if sent > self._slowed:
            self.limit = max(1.0, self.limit / 2)
            self._slowed = time.monotonic()
        if wait is not None:
            self._until = max(self._until, time.monotonic() + wait)

    def speed_up(self) -> None:
        """Count an answer; as many as are in flight raise the limit by one."""
        self.limit = min(self._most, self.limit + 1 / self.limit)


class EndpointPolicy:
    """Asks an OpenAI-compatible endpoint for chat completions.

    A request that fails for a transient reason is retried after a growing, random delay; a refused
    connection or a web page before any answer ends the run at once. When a request has no retries left or is
    rejected, a probe request decides whether the endpoint or the prompt is at fault: if the probe is
    answered, only this episode has failed; otherwise the run stops.
    """

    def __init__(
        self,
        name: str,
        model: str,
        sampling: Sampling,
        settings: EndpointSettings,
        key: Key,
        connection: Connection,
    ) -> None:
        if key.is_in(f"{name} {settings.model_dump_json()}"):
            raise RagenError("the key is part of the settings, which are recorded; leave it out")
        self.name = name
        self.concurrency = connection.concurrency
        self._where = f"{name} at {settings.base_url}"
        self._base_url = settings.base_url
        body = {"model": model, "temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
        stop = {"stop": list(settings.stop)} if settings.stop else {}
        self._body: dict[str, Any] = _without_nulls(merged(body | stop, settings.extra_body))
        self._seeded = "seed" not in settings.extra_body
        self._continue = {k: v for k, v in _CONTINUE.items() if k not in settings.extra_body}
        self._tools = settings.tools
        self._merges = settings.system == "merge"
        self._stop = settings.stop
        self._max_retries = connection.max_retries
        self._client = Client(settings.base_url, key, connection)
        self.unused = self._client.unused
        self._gate = Gate(connection.concurrency)
        self._jitter = random.Random()
        self._answered = False

    async def reply(self, request: Request) -> Reply:
        """Ask for one reply; see `AsyncPolicy`."""
        body = {**self._body, "messages": [*_messages(request), *_beginning(request.prefix)]}
        if self._tools:
            body |= self._with_tools(request, body["messages"])
        if self._merges:
            body["messages"] = merge_system(body["messages"])
        if self._seeded:
            body["seed"] = request.seed % _SEEDS
        if request.prefix:
            body |= self._continue
        try:
            answer, seconds = await self._persist(body, self._max_retries)
        except PromptTooLongError as error:
            if not self._answered:
                await self._check_endpoint(request, body, error)
            return Reply("", overflow=True)
        except EmptyAnswerError as error:
            await self._check_endpoint(request, body, error)
            return Reply("", filtered=True)
        except (TroubleError, RejectedError, ForbiddenError) as error:
            await self._check_endpoint(request, body, error)
            raise RequestFailedError(str(error)) from None
        if not answer.cut_off:
            answer = replace(answer, text=closed(answer.text, self._stop))
        return _reply(request, answer, seconds)

    def _with_tools(self, request: Request, messages: list[dict[str, Any]]) -> dict[str, Any]:
        if request.prefix:
            raise RagenError(
                f"{self._where}: think_prefix is true, but must be false with --tools, because a model "
                "that calls a tool begins its turn itself"
            )
        return {"messages": as_calls(messages), "tools": tools_of(request.conversation)}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _persist(self, body: dict[str, Any], max_retries: int) -> tuple[Answer, float]:
        """Return the answer to a request and its seconds, or raise the error of the last attempt."""
        empty = 0
        for number in range(1, max_retries + 2):
            try:
                return await self._ask(body)
            except TroubleError as error:
                if not self._answered:
                    final = first_contact_error(self._where, self._base_url, error)
                    if final is not None:
                        raise final from None
                empty += isinstance(error, EmptyAnswerError)
                if number > max_retries or empty > _PROBE_RETRIES:
                    raise
                _LOG.info("%s: %s; attempt %d of %d",
                          self._where, error, number, max_retries + 1)  # fmt: skip
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (number - 1))
            await asyncio.sleep(delay * self._jitter.uniform(0.5, 1.0))
        raise AssertionError("unreachable")

    async def _ask(self, body: dict[str, Any]) -> tuple[Answer, float]:
        async with self._gate.place():
            sent = time.monotonic()
            try:
                answer = await self._client.ask(body)
            except LimitedError as error:
                self._gate.slow_down(sent, error.wait)
                raise
            except UnknownModelError as error:
                raise UnknownModelError(f"{self.name}: {error}") from None
            self._gate.speed_up()
            self._answered = True
            return answer, time.monotonic() - sent

    async def _check_endpoint(self, request: Request, body: dict[str, Any], failed: Exception) -> None:
        """Raise unless the endpoint answers a small request of the same kind."""
        pictured = bool(request.pictures)
        hello = _content("Hello", np.full((32, 32, 3), 255, np.uint8)) if pictured else "Hello"
        greeting = [{"role": "user", "content": hello}, *_beginning(request.prefix)]
        system = [m for m in body["messages"][:1] if m["role"] == "system"]
        begun = [{**message, "content": "Hello"} for message in system]
        try:
            await self._probe({**body, "messages": [*begun, *greeting]})
        except RejectedError as error:
            if begun and await self._answers({**body, "messages": greeting}):
                raise EndpointError(
                    f"{self._where} refuses system messages: {error}; --system merge puts their text at the "
                    "beginning of the first user message"
                ) from None
            raise EndpointError(
                f"{self._where} refuses these settings: {error}; --extra-body changes what is sent"
            ) from None
        except TroubleError:
            raise EndpointError(
                f"{self._where} answers neither this request nor a small one: {failed}; finished "
                "episodes are kept, and the same command resumes the run"
            ) from None
        except PromptTooLongError as error:
            raise EndpointError(
                f"{self._where} rejects even the prompt 'Hello' as too long: {error}; lower "
                "--max-reply-tokens, or serve the model with a longer context"
            ) from None

    async def _probe(self, body: dict[str, Any]) -> None:
        answer, _ = await self._persist(body, _PROBE_RETRIES)
        if answer.usage is not None:
            self.unused.append(answer.usage)

    async def _answers(self, body: dict[str, Any]) -> bool:
        try:
            await self._probe(body)
        except (RejectedError, TroubleError, PromptTooLongError):
            return False
        return True


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(each) for name, each in value.items() if each is not None}


def _messages(request: Request) -> list[dict[str, Any]]:
    """Return the chat as it is sent: each picture is a part of its user message."""
    if not request.pictures:
        return list(request.messages)
    pictures = iter(request.pictures)
    return [
        {"role": m["role"], "content": _content(m["content"], next(pictures))} if m["role"] == "user" else m
        for m in request.messages
    ]


def _beginning(prefix: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": prefix}] if prefix else []


def _content(text: str, picture: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": data_url(picture)}}]


def _reply(request: Request, answer: Answer, seconds: float) -> Reply:
    usage = answer.usage
    if usage is None:
        prompt = _estimate("".join(m["content"] for m in request.messages))
        calls = "".join(call.name + call.arguments for call in answer.calls)
        written = _estimate(answer.text + (answer.reasoning or "") + calls)
    else:
        prompt, written = usage.prompt_tokens, usage.written
    think = request.conversation.settings.think
    return Reply(
        text=reply_text(answer.text, answer.calls, think),
        prompt_tokens=prompt,
        reply_tokens=written,
        cut_off=answer.cut_off,
        reasoning=answer.reasoning,
        tokens_estimated=usage is None,
        filtered=answer.filtered,
        seconds=seconds,
    )


def _estimate(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
