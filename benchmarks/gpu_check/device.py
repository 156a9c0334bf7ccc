"""Whether there is a GPU, and what vLLM needs beside it. Run before anything is installed.

``python benchmarks/gpu_check/device.py`` ends with exit code 2 if there is none. It needs only Python itself.
"""

import ctypes
import os
import shutil
import sys
import sysconfig
from pathlib import Path

CUDA = 13
"""The version of CUDA that the installed libraries are built for."""


def gpus() -> int:
    """Return how many CUDA devices the driver shows."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def missing(driver: int, compiler: str | None, headers: Path) -> str | None:
    """Return what a machine with a GPU lacks, or None.

    Args:
        driver: The newest CUDA that its driver runs, such as 13000.
        compiler: Of C, by which Triton starts its kernels.
        headers: Folder of Python's.
    """
    if driver < CUDA * 1000:
        return f"a driver for CUDA {CUDA}; this one supports {driver // 1000}.{driver % 1000 // 10}"
    if compiler is None:
        return "a C compiler, but found neither gcc nor clang; try apt-get install gcc"
    if not (headers / "Python.h").exists():
        return f"Python's headers, but '{headers}' has no Python.h; try apt-get install python3-dev"
    return None


def lacking() -> str | None:
    """Return what this machine lacks, or None."""
    if not gpus():
        return "a CUDA GPU, but the driver shows none"
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return missing(_driver(), compiler, Path(sysconfig.get_path("include")))


def _driver() -> int:
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def main() -> int:
    """Return 0 if all is there, else say what is not and return 2."""
    lacks = lacking()
    if lacks is None:
        return 0
    print(f"make gpu needs {lacks}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
