"""One request to an endpoint: sent by the openai client, bounded in time and size, errors typed."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import httpx2
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
)

from ragen_agents.bounded_http import bounded
from ragen_agents.policies.endpoint.answers import Answer, read_answer
from ragen_agents.policies.endpoint.endpoint_settings import Connection
from ragen_agents.policies.endpoint.errors import (
    TroubleError,
    UnreachableError,
    WebPageError,
    error_of,
    message_of,
)
from ragen_agents.policies.endpoint.key import Key
from ragen_agents.policies.endpoint.tools import ToolCall

MAX_ANSWER: Final = 1 << 22
"""Most bytes of an answer; 65 536 characters are the most that a reply may have."""
_MAX_MESSAGE: Final = 300


class Client:
    """Asks one endpoint. No text that it returns or raises shows the key."""

    def __init__(self, base_url: str, key: Key, connection: Connection) -> None:
        self._key = key
        self._timeout = connection.timeout
        open_at_most = httpx2.Limits(
            max_connections=connection.concurrency,
            max_keepalive_connections=connection.concurrency,
        )
        self._client = AsyncOpenAI(
            api_key=key.value,
            base_url=base_url,
            timeout=connection.timeout,
            max_retries=0,
            default_headers={"Accept-Encoding": "identity"},
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
                response = await self._client.post(
                    "/chat/completions", cast_to=httpx2.Response, body=body
                )
        except TimeoutError:
            raise TroubleError(f"no answer in {self._timeout:g} s") from None
        except APIStatusError as error:
            moved = self._line(error.response.headers.get("location", ""))
            said = self._line(message_of(error))
            raise error_of(error, said, str(body.get("model")), moved) from None
        except APIConnectionError as error:
            cause = error.__cause__ or error
            kind = UnreachableError if isinstance(cause, httpx2.ConnectError) else TroubleError
            raise kind(self._line(f"{type(cause).__name__} {cause}")) from None
        except APIError as error:
            raise TroubleError(self._line(error.message)) from None
        try:
            return self._covered(read_answer(response.content))
        except TroubleError as error:
            if response.headers.get("content-type", "").lower().startswith("text/html"):
                raise WebPageError("the answer is a web page") from None
            raise TroubleError(self._line(str(error))) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _covered(self, answer: Answer) -> Answer:
        reasoning = None if answer.reasoning is None else self._key.hide(answer.reasoning)
        calls = tuple(
            ToolCall(self._key.hide(call.name), self._key.hide(call.arguments))
            for call in answer.calls
        )
        return replace(answer, text=self._key.hide(answer.text), reasoning=reasoning, calls=calls)

    def _line(self, message: str) -> str:
        return self._key.hide(" ".join(message.split()))[:_MAX_MESSAGE]
