"""What commands say where a package of an extra is not installed."""

import subprocess
import sys
from typing import Any

import pytest

MISSING = """
import sys


class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *more):
        missing = name.partition(".")[0] == {package!r}
        return None if missing else self.finder.find_spec(name, *more)


sys.meta_path = [Without(finder) for finder in sys.meta_path]
from ragen_bench.__main__ import main
sys.exit(main({arguments!r}))
"""
CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}


@pytest.mark.parametrize(
    ("package", "extra", "command"),
    [
        ("typer", "bench", "bench"),
        ("torch", "models", "bench"),
        ("pettingzoo", "multi-agent", "match"),
    ],
)
def test_a_missing_extra_is_named(package, extra, command, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("{}")
    arguments = [command, "--agent", str(tmp_path / "model")]
    program = MISSING.format(package=package, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, **CAPTURED)
    assert done.returncode == 2
    assert f"pip install -e '.[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_misspelt_game_is_named_where_pettingzoo_is_missing(tmp_path):
    arguments = ["bench", "--agent", "random", "--game", "Chess"]
    program = MISSING.format(package="pettingzoo", arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, **CAPTURED)
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown game 'Chess'; ")
