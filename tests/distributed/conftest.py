"""A cluster of two machines."""

import signal
import sys
import tempfile
from pathlib import Path

import pytest

from ragen_agents.run_files.files import exclusive_lock

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
