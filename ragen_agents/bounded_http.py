"""Answers over HTTP of no more than so many bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2


def bounded(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a client's hook that lets no more than ``limit`` bytes of an answer be read.

    It also drops a connection on which bytes follow an answer, which the next request would take for its own.
    """

    async def hook(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.RequestError("the answer is compressed, although no compression was requested")
        network = response.extensions.get("network_stream")
        response.stream = _Bounded(response.stream, limit, network)

    return hook


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, limit: int, network: Any) -> None:
        self._stream, self._limit, self._network = stream, limit, network

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > self._limit:
                raise httpx2.RequestError(f"the answer has more than {self._limit} bytes")
            yield part
        if self._network is not None and _is_followed(self._stream):
            await self._network.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_followed(stream: Any) -> bool:
    """Return whether bytes follow an answer that was read to its end.

    Only the connection knows, which httpx keeps behind the streams that wrap one another.
    """
    while stream is not None:
        connection = getattr(stream, "_connection", None)
        if connection is not None:
            state = getattr(connection, "_h11_state", None)
            return state is not None and bool(state.trailing_data[0])
        stream = getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None)
    return False
