"""Wait for asynchronous work from ordinary code."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from anyio.from_thread import start_blocking_portal

T = TypeVar("T")


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run asynchronous work to its end, also where an event loop runs already, as in a notebook.

    An interrupt cancels the work and waits until it has cleaned up.

    Args:
        work: Makes the coroutine.

    Returns:
        What the coroutine returned.

    Raises:
        BaseException: What the coroutine raised.
    """
    if not _is_in_loop():
        return asyncio.run(work())
    with start_blocking_portal() as portal:  # a loop of its own, in another thread
        result: T = portal.call(work)
    return result


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
