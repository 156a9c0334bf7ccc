"""Whether there is a GPU. Run before anything is installed, so it needs only Python itself.

``python benchmarks/gpu_check/device.py`` ends with exit code 2 if there is none.
"""

import ctypes
import sys


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


def main() -> int:
    """Return 0 if there is a GPU, else say that there is none and return 2."""
    if gpus():
        return 0
    print("make gpu needs a CUDA GPU, and the driver shows none here", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
