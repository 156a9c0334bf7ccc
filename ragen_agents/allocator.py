"""Keep freed memory in the process, because each pass of a model needs as much as the one before."""

import ctypes
import os
import platform
from typing import Final

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_MAX: Final = -4
"""Numbers of settings in glibc's malloc.h."""
_NEVER: Final = -1
_STEP: Final = 64 << 20
"""Bytes by which the heap grows."""


def keep_freed_memory() -> None:
    """Make the C library keep freed memory, instead of returning it to the system.

    The system clears each page before a process gets it again. Without that, SmolLM2 imitates in 115 s
    instead of 128 s on two cores; for models as small as the starter it makes little difference. The
    setting holds for the whole process. It needs glibc, and leaves everything as it is elsewhere and where
    the environment sets the allocator (``MALLOC_…``, ``GLIBC_TUNABLES`` or ``LD_PRELOAD``).
    """
    given = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")) for name in os.environ)
    if given or platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    for setting, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _STEP)):
        mallopt(setting, value)
