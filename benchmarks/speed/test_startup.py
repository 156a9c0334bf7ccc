"""Start-up: processor time of whole processes, from the start of the interpreter to its end."""

# ruff: noqa: D103

import os
import resource
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from measuring import OURS, measure

START = "Start-up, whole processes"
MAKE = "import gymnasium as gym, ragen_envs; env = gym.make('ragen/Sokoban-v0'); env.reset(seed=0)"
VECTOR = (
    # As after `pip install -e .`, without what only peers and the extra `bench` need: numba would import it.
    "import sys; sys.modules['scipy'] = None; "
    "import gymnasium as gym, numpy as np, ragen_envs; "
    "envs = gym.make_vec('ragen/Sokoban-v0', num_envs=64); "
    "envs.reset(seed=0); envs.step(np.zeros(64, np.int64))"
)
PROCESSES = {
    "an empty interpreter": ("python", "pass"),
    "import gymnasium": ("Gymnasium", "import gymnasium"),
    "import ragen_envs": (OURS, "import ragen_envs"),
    "first gym.make and reset of Sokoban": (OURS, MAKE),
    "import envpool": ("envpool", "import envpool"),
    "import jumanji": ("jumanji", "import jumanji"),
}


def children() -> float:
    """Return the processor time of all processes that were started and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


pytestmark = pytest.mark.benchmark(timer=children)


def start(code: str, cache: Path | None = None) -> None:
    environment = {**os.environ} | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("row", PROCESSES)
def test_process(benchmark: Any, row: str) -> None:
    who, code = PROCESSES[row]
    if code.startswith("import") and find_spec(code.split()[1].rstrip(",")) is None:
        pytest.skip(f"{who} is not installed")
    measure(benchmark, lambda: start(code), START, row, who, rounds=7)


def test_first_vector_step_cold(benchmark: Any, tmp_path: Path) -> None:
    caches = iter(tmp_path / str(k) for k in range(9))
    row = "first vector step of Sokoban, nothing compiled yet"
    measure(benchmark, lambda: start(VECTOR, next(caches)), START, row, rounds=2)


def test_first_vector_step_cached(benchmark: Any, tmp_path: Path) -> None:
    row = "first vector step of Sokoban, machine code kept"
    start(VECTOR, tmp_path)
    measure(benchmark, lambda: start(VECTOR, tmp_path), START, row, rounds=5)
