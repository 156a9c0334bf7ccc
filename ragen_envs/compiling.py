"""How plain functions are compiled. Importing this module loads numba; only kernels do.

Machine code is kept where numba keeps it: beside the source, or in the user's cache directory when the
package is installed read-only. Where nothing can be written, each process compiles anew.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numba
from numba.core.caching import FunctionCache
from numba.extending import register_jitable

PATIENCE: Final = 1.0
"""Seconds of compilation after which a message says what is going on."""

_LOG: Final = logging.getLogger("ragen.compiling")
_SOURCES: Final = ("seeding", "splits", "dynamics", "generator", "kernels", "search")
_announced = threading.Event()


def _fingerprint() -> str:
    """Return a hash of every source file that is compiled."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if path.stem in _SOURCES:
            digest.update(path.read_bytes())
    return digest.hexdigest()


_FINGERPRINT: Final = _fingerprint()


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache, but machine code is also outdated by a change of a file that is called into."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _FINGERPRINT)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code; a full disk costs time at the next start, nothing else."""
        with suppress(OSError):
            super().save_overload(sig, data)


def jit(function: Callable[..., Any]) -> Any:
    """Return a function compiled at its first call, or loaded from the cache."""
    compiled = numba.njit(function)
    with suppress(RuntimeError):  # there is no directory that can be written
        compiled._cache = _Cache(function)
    return compiled


def share(*functions: Callable[..., Any]) -> None:
    """Let compiled functions call these plain ones, which stay as they are."""
    for function in functions:
        register_jitable(function)


@contextmanager
def first_use(*kernels: Any) -> Iterator[None]:
    """Around a call of kernels: warn once if their first compilation takes long."""
    if _announced.is_set() or all(kernel.signatures for kernel in kernels):
        yield
        return
    timer = threading.Timer(PATIENCE, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _announce() -> None:
    if not _announced.is_set():
        _announced.set()
        _LOG.warning("compiling the games for their first use ...")
