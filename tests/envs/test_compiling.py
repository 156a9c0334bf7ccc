"""Compiled code: what is said while it compiles, and where it is kept."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import pytest
from numba.core.event import trigger_event

import ragen_envs
from ragen_envs.compiled import compiling

BANDIT = "ragen/Bandit-v0"


class Kernel:
    def __init__(self, *overloads):
        self.overloads = overloads


def test_a_slow_compilation_is_announced_once(caplog, monkeypatch):
    monkeypatch.setattr(compiling, "PATIENCE", 0.01)
    compiling._announced.clear()
    with compiling.first_use(Kernel("compiled")), trigger_event("numba:compile"):
        time.sleep(0.05)
    with compiling.first_use(Kernel()):  # its machine code is loaded, which can take as long
        time.sleep(0.05)
    assert not caplog.records
    for _ in range(2):
        with compiling.first_use(Kernel("compiled"), Kernel()), trigger_event("numba:compile"):
            time.sleep(0.05)
    assert [record.name for record in caplog.records] == ["ragen.compiling"]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_waits_for_the_first_use_and_is_as_before(enabled, monkeypatch):
    monkeypatch.setattr(compiling.gc, "isenabled", lambda: enabled)
    calls = []
    monkeypatch.setattr(compiling.gc, "disable", lambda: calls.append("disable"))
    monkeypatch.setattr(compiling.gc, "enable", lambda: calls.append("enable"))
    with compiling.first_use(Kernel("compiled")):
        assert not calls
    with compiling.first_use(Kernel()):
        assert calls == ["disable"]
    assert calls == ["disable", "enable"][: 1 + enabled]


FINGERPRINTS = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from ragen_envs.compiled import compiling
from ragen_envs.games.bandit import kernels as bandit
from ragen_envs.games.sokoban import kernels as sokoban

def found():
    compiling.fingerprint.cache_clear()
    return [compiling.fingerprint(module.__name__) for module in (bandit, sokoban)]

before = found()
for changed in sys.argv[2:]:
    path = Path(sys.argv[1], "ragen_envs", changed)
    source = path.read_text("utf-8")
    path.write_text(source + "# changed\\n", "utf-8")
    print(*(int(a != b) for a, b in zip(before, found())))
    path.write_text(source, "utf-8")
"""
OUTDATED = {
    "levels/keys.py": "1 1", "compiled/kernels.py": "1 1", "games/sokoban/reverse_play.py": "0 1",
    "games/bandit/kernels.py": "1 0", "games/frozen_lake/dynamics.py": "0 0",
}  # fmt: skip
"""Whether machine code of Bandit and of Sokoban is outdated by a change of a file."""


@pytest.mark.slow
def test_machine_code_is_outdated_by_a_change_of_any_file_it_was_compiled_from(tmp_path):
    source = Path(ragen_envs.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "packs")
    shutil.copytree(source, tmp_path / "ragen_envs", ignore=ignored)
    done = subprocess.run(
        [sys.executable, "-B", "-c", FINGERPRINTS, str(tmp_path), *OUTDATED],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [*OUTDATED.values()]


PLAY = """
import sys; sys.path.insert(0, sys.argv[1])
import gymnasium as gym, ragen_envs
from ragen_envs.games.bandit import kernels
envs = gym.make_vec("ragen/Bandit-v0", num_envs=2)
cache = kernels.step._cache
print(ragen_envs.__file__, *envs.reset(seed=0)[0].ravel(), getattr(cache, "cache_path", None),
      sum(kernels.step.stats.cache_hits.values()))
"""


def start_playing(package, home):
    kept = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    kept.pop("XDG_CACHE_HOME", None)
    environment = {**kept, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", PLAY, str(package)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_read_only_install(tmp_path):
    """Two processes at once compile into a fresh home; a third loads; without a home it still runs."""
    package, home = tmp_path / "site", tmp_path / "home"
    source = Path(ragen_envs.__file__).parent
    shutil.copytree(source, package / "ragen_envs", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package / "ragen_envs", *(package / "ragen_envs").rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("nothing can be kept here, whoever asks")
    home.mkdir()
    outputs = [process.communicate()[0].split() for process in
               [start_playing(package, home), start_playing(package, home)]]  # fmt: skip
    outputs.append(start_playing(package, home).communicate()[0].split())
    outputs.append(start_playing(package, package / "ragen_envs" / "__init__.py").communicate()[0].split())
    expected = [str(n) for n in gym.make_vec(BANDIT, num_envs=2).reset(seed=0)[0].ravel()]
    for output in outputs:
        assert output[0].startswith(str(package))
        assert output[1:5] == expected
    for output in outputs[:3]:
        assert output[5].startswith(str(home))
    assert int(outputs[2][6]) >= 1
    assert outputs[3][5:] == ["None", "0"]
