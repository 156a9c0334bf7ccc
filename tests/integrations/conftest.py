"""Servers of the OpenEnv adapter on this machine."""

import socket
import threading
import time

import pytest


def served(env_id):
    import uvicorn

    from ragen_envs.adapters.openenv_server import app

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(app(env_id), port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="module")
def url():
    yield from served("ragen/SokobanText-v0")


@pytest.fixture(scope="module")
def shop_url():
    yield from served("ragen/WebShopText-v0")
