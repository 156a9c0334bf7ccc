"""Tests of what only a GPU shows: ``make gpu`` runs them. RAGEN_GPU_REHEARSAL=1 runs on a CPU what it can."""

import os
from pathlib import Path

import pytest
from starter_fixtures import codec, starter  # noqa: F401

HERE = Path(__file__).parent
REHEARSED = os.environ.get("RAGEN_GPU_REHEARSAL") == "1"


def has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_collection_modifyitems(items):
    if has_gpu() or REHEARSED:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="no CUDA GPU here; make gpu needs one"))


@pytest.fixture
def cuda():
    """For tests of what a CPU does not have."""
    if not has_gpu():
        pytest.skip("only CUDA has this")


@pytest.fixture(scope="session")
def device():
    import torch

    return torch.device("cuda" if has_gpu() else "cpu")
