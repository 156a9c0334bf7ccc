"""What the tests with vLLM share. It is loaded once: starting it takes longer than any test."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from gymnasium import make_vec
from starter_fixtures import codec, starter  # noqa: F401
from vllm_serving import Serving

from ragen_agents.engines.vllm.local import LocalSettings, load_local
from ragen_agents.starter import STARTER


@pytest.fixture(scope="session")
def local():
    """The starter model in vLLM, loaded beside compiled games; its weights are whatever came last."""
    make_vec("ragen/Sokoban-v0", 2).reset(seed=0)
    model = load_local(STARTER, LocalSettings(2048, 64, "float32", 0.25))
    yield model
    model.close()


@pytest.fixture(scope="session")
def serving(tmp_path_factory):
    """The starter model in a server; its weights are whatever came last."""
    server = Serving(tmp_path_factory.mktemp("server") / "log")
    yield server
    server.kill()
