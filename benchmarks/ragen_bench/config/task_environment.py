"""The environment variables of processes that do a part of the work."""

import os
from pathlib import Path
from typing import Final

from ragen_bench.config.extensions import imports_environment

_THREADS: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
)  # fmt: skip


def task_environment(threads: int, hides_gpus: bool = False) -> dict[str, str]:
    """Return the environment variables of a task's process: thread limits, extensions, absolute paths."""
    changed = dict.fromkeys(_THREADS, str(threads)) | imports_environment()
    if hides_gpus:
        changed["CUDA_VISIBLE_DEVICES"] = ""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        changed["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return changed
