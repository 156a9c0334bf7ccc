"""One core, and seconds of the processor: what else runs on the machine does not count.

Processor time counts every thread, so a peer gains nothing from threads, nor loses by waiting for them.
"""

import os
from collections.abc import Iterator

import pytest
from goals import CORES  # counts the cores, so it must be imported before the run keeps to one

_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def pytest_configure(config: pytest.Config) -> None:
    """Keep to one core, peers included, and time by the processor."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    config.option.benchmark_timer = "time.process_time"


@pytest.fixture
def all_cores() -> Iterator[None]:
    """Let the test use every core again, where that can be said."""
    if CORES == 1 or not _CORES:
        yield
        return
    one = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _CORES)
    yield
    os.sched_setaffinity(0, one)
