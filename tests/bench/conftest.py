"""A browser and a run, for the tests of the benchmark."""

import os
import shutil
from pathlib import Path

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    if not os.environ.get("RAGEN_BROWSER"):
        pytest.skip("make test-site")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield started
        started.close()


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished run of an agent."""
    from bench_runs import bench

    return bench(tmp_path_factory.mktemp("runs") / "finished", episodes=40)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "run"))
