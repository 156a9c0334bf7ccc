"""A browser, a run, and a cluster, for the tests of the benchmark."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragen_agents.run_files.files import exclusive_lock

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM and "RAGEN_BROWSER" not in os.environ:
        pytest.skip("there is no chromium; make test-site installs it")
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


QUICK_TO_NOTICE = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}


@contextmanager
def two_machines():
    """Two machines on this one: two raylets with their own ports and stores, a CPU each."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    head = {"num_cpus": 1, "_system_config": QUICK_TO_NOTICE, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        made.second = made.add_node(num_cpus=1)
        yield made
        made.shutdown()


@pytest.fixture
def cluster():
    """Two machines of a test's own, of which it may kill one."""
    with ray_alone(), two_machines() as made:
        yield made


@pytest.fixture
def own_ray(monkeypatch):
    """A cluster of the command's own, whatever else runs on this machine."""
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with ray_alone():
        yield


def ray_alone():
    """Wait until no other worker of the tests has a cluster: two at once keep each other from starting."""
    return exclusive_lock(Path(tempfile.gettempdir()) / "ragen-tests-ray.lock", wait=True)


@pytest.fixture(scope="module")
def machines():
    """Two machines that tests share."""
    with two_machines() as made:
        yield made
