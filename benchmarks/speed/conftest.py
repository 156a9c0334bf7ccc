"""One core, and seconds of the processor: what else runs on the machine does not count.

Processor time counts every thread, so a peer gains nothing from threads, nor loses by waiting for them.
"""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Keep to one core, peers included, and time by the processor."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    config.option.benchmark_timer = "time.process_time"
