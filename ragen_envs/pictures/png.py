"""Pictures as PNG files, and envs as pictures in notebooks."""

import struct
import sys
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """Return an RGB picture, uint8 (h, w, 3), as a PNG file."""
    height, width, _ = picture.shape
    rows = np.pad(picture.reshape(height, -1), ((0, 0), (1, 0)))  # each row begins with filter 0
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def show_envs_in_notebooks() -> None:
    """Show games in IPython, if it runs, also in wrappers, which hide the ``_repr_png_`` of their game."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and shell.display_formatter is not None:
        formatter = shell.display_formatter.formatters["image/png"]
        formatter.for_type_by_name("gymnasium.core", "Wrapper", png_of_wrapped)


def png_of_wrapped(env: Any) -> bytes | None:
    """Return the picture of a wrapped game, or None for an env that shows none."""
    png: bytes | None = getattr(env.unwrapped, "_repr_png_", lambda: None)()
    return png
