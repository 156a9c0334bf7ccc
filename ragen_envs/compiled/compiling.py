"""Compile plain functions. Importing this module loads numba; only kernels do.

Machine code is kept where numba keeps it: beside the source, or in the user's cache directory when the
package is installed read-only. Where nothing can be written, each process compiles anew.
"""

import gc
import hashlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numba
from numba.core.caching import FunctionCache
from numba.core.event import Event, Listener, install_listener
from numba.extending import overload

PATIENCE: Final = 1.0
"""Seconds of compilation after which a message says what is going on."""

_HERE: Final = Path(__file__).parent

_BORROWING: Final = {"_nrt": False}
"""Options of functions without reference counting."""
_UNWRAPPED: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that nobody calls from Python or C; these wrappers take an eighth of a compilation."""

_LOG: Final = logging.getLogger("ragen.compiling")
_announced = threading.Event()


@lru_cache(maxsize=256)
def fingerprint(module: str) -> str:
    """Return a hash of the files that the functions of a game are compiled from."""
    digest = hashlib.sha256()
    own = Path(sys.modules[module].__file__ or "").parent
    for folder in (_HERE, _HERE.parent / "levels", own):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache, but machine code is also outdated by a change of a file that is called into."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), fingerprint(self._py_func.__module__))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code; a full disk costs time at the next start, nothing else."""
        with suppress(OSError):
            super().save_overload(sig, data)


def jit(function: Callable[..., Any], **options: bool) -> Any:
    """Return a function compiled at its first call, or loaded from the cache.

    It runs without Python's lock, so that threads can run it at the same time.
    """
    compiled = numba.njit(function, nogil=True, no_cfunc_wrapper=True, **options)
    with suppress(RuntimeError):  # there is no directory that can be written
        compiled._cache = _Cache(function)
    return compiled


def in_place(function: Callable[..., Any]) -> Any:
    """Return a compiled function, see ``jit``, that allocates and returns no arrays.

    It is compiled without reference counting, which takes longer than the games in a step of 64 envs.
    """
    return jit(function, **_BORROWING)


def inner(function: Callable[..., Any]) -> Any:
    """Return a function, see ``in_place``, that only compiled ones call: part of their machine code."""
    return numba.njit(function, nogil=True, **_UNWRAPPED, **_BORROWING)


def share(*functions: Callable[..., Any]) -> None:
    """Allow compiled functions to call these plain ones, which allocate no arrays and stay as they are."""
    for function in functions:
        override(function, function)


def override(function: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    """Replace a plain function by another one in compiled functions, see ``share``."""
    overload(function, jit_options=_UNWRAPPED | _BORROWING, strict=False)(lambda *_: compiled)


class _CompilationNotice(Listener):  # type: ignore[misc]
    """Announces a compilation that takes long; loading cached machine code does not count."""

    def __init__(self) -> None:
        self.timer = threading.Timer(PATIENCE, _announce)
        self.timer.daemon = True

    def on_start(self, event: Event) -> None:  # noqa: ARG002 - numba passes it
        """Start the timer at the first compilation."""
        if self.timer.ident is None:
            self.timer.start()

    def on_end(self, event: Event) -> None:
        """Keep the timer running: more compilations follow."""


@contextmanager
def first_use(*kernels: Any) -> Iterator[None]:
    """Around a call of kernels: their first compilation is as short as it can be, and announced if long."""
    if all(kernel.overloads for kernel in kernels):
        yield
        return
    notice, collects = _CompilationNotice(), gc.isenabled()
    gc.disable()  # it takes 5% of a compilation
    try:
        with install_listener("numba:compile", notice):
            yield
    finally:
        notice.timer.cancel()
        if collects:
            gc.enable()


def _announce() -> None:
    if not _announced.is_set():
        _announced.set()
        # Information, but without a configuration Python shows warnings only.
        _LOG.warning("compiling the games for their first use; this can take half a minute")
