"""A browser, a run, and a cluster, for the tests of the benchmark."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from ragen_agents.run_files.files import exclusive_lock

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


@pytest.fixture
def fails(capsys):
    """Run a command that must be refused in one line, and return the line."""

    def check(*arguments):
        from ragen_bench.__main__ import main

        capsys.readouterr()
        assert main([str(a) for a in arguments]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("error: ")
        assert len(shown.err.splitlines()) == 1
        assert not shown.out
        return shown.err

    return check


SYSTEM = {
    "health_check_period_ms": 500, "health_check_failure_threshold": 3,
    "prestart_worker_first_driver": False,
}  # fmt: skip
"""Notice a dead machine soon; start no worker that none of our tasks could use."""


@pytest.fixture(scope="module")
def machines():
    """Two machines on this one: two raylets with their own ports and stores, a CPU each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets its own
    head = {"num_cpus": 1, "_system_config": SYSTEM, "include_dashboard": False}
    # Two clusters that start at once keep each other from starting.
    with exclusive_lock(Path(tempfile.gettempdir()) / "ragen-tests-ray.lock", wait=True):
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        made.second = made.add_node(num_cpus=1)
        yield made
        sys.modules["ray"].shutdown()
        made.shutdown()
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def on_ray(machines, monkeypatch):
    """Run commands of this process on the machines, whose workers then serve all tests that do."""
    monkeypatch.setenv("RAY_ADDRESS", machines.address)
