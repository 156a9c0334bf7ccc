import os
import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource
from ragen_agents.allocator import keep_freed_memory
{setting}
for _ in range(20):  # it takes a few until the heap is large enough
    b"x" * (1 << 26)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    b"x" * (1 << 26)  # 64 MiB, which is 16384 pages of 4 KiB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(setting, **environment):
    code = _FAULTS.format(setting=setting)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=os.environ | environment,
    )  # fmt: skip
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this setting")
def test_tensors_of_the_same_size_need_no_new_pages():
    usual = _page_faults("")
    kept = _page_faults("keep_freed_memory()")
    assert kept < usual / 20


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has this setting")
def test_what_the_environment_sets_holds():
    given = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    assert _page_faults("keep_freed_memory()", **given) > _page_faults("", **given) / 2
