"""Answers over HTTP of no more than so many bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2


def bounded(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a client's hook that lets no more than ``limit`` bytes of an answer be read."""

    async def hook(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RequestError(
                "the answer is compressed, although no compression was requested"
            )
        response.stream = _Bounded(response.stream, limit)

    return hook


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._limit = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > self._limit:
                raise httpx2.RequestError(f"the answer has more than {self._limit} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
