"""A folder of pages, served to this computer only."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ragen_envs.game.errors import RagenError


class _Quiet(SimpleHTTPRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def serve_folder(folder: Path, port: int) -> None:
    """Serve a folder on localhost until Ctrl-C, and print its address first.

    Args:
        folder: It holds ``index.html``.
        port: 0 for any free one.

    Raises:
        RagenError: The port cannot be used.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Quiet, directory=folder))
    except OSError as error:
        raise RagenError(f"port is {port}, but it cannot be used: {error.strerror}") from error
    with server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()
