import os
import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource
from ragen_agents.allocator import keep_freed_memory

def faults():
    for _ in range(20):  # it takes a few until the heap is large enough
        b"x" * (1 << 26)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        b"x" * (1 << 26)  # 64 MiB, which is 16384 pages of 4 KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = faults()
keep_freed_memory()
print(usual, faults())
"""


def _page_faults(**environment):
    """Return the page faults of a new process before and after it is told to keep its memory."""
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True,
        env=os.environ | environment,
    )  # fmt: skip
    return map(int, done.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this setting")
def test_tensors_of_the_same_size_need_no_new_pages():
    usual, kept = _page_faults()
    assert kept < usual / 20


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this setting")
def test_what_the_environment_sets_holds():
    usual, kept = _page_faults(MALLOC_MMAP_THRESHOLD_=str(1 << 20))
    assert kept > usual / 2
