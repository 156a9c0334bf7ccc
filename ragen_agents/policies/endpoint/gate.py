"""How many requests are in flight: halved when the server asks for less, then raised slowly."""

import asyncio
import time
from types import TracebackType
from typing import Self


class Gate:
    """A semaphore that adapts; requests are sent inside ``async with``.

    The rule is that of TCP (Chiu and Jain 1989): multiplicative decrease, once for all requests that
    were in flight together, and additive increase.

    Args:
        most: Most requests in flight, >= 1.
    """

    def __init__(self, most: int) -> None:
        self.limit = float(most)
        self._most = most
        self._open = 0
        self._slowed = self._until = float("-inf")
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        async with self._changed:
            await self._changed.wait_for(lambda: self._open < int(self.limit))
            self._open += 1
        try:
            while (wait := self._until - time.monotonic()) > 0:
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._open -= 1
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
