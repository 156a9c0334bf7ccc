"""What commands say where a package of an extra is not installed."""

import subprocess
import sys
from typing import Any

import pytest

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
    program = (
        f"import sys; sys.modules[{package!r}] = None; from ragen_bench.__main__ import main; "
        f"sys.exit(main([{command!r}, '--agent', {str(tmp_path / 'model')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, **CAPTURED)
    assert done.returncode == 2
    assert f"pip install -e '.[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_misspelt_game_is_named_where_pettingzoo_is_missing(tmp_path):
    program = (
        "import sys; sys.modules['pettingzoo'] = None; from ragen_bench.__main__ import main; "
        "sys.exit(main(['bench', '--agent', 'random', '--game', 'Chess']))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, **CAPTURED)
    assert done.returncode == 2
    assert done.stderr.startswith("error: unknown game 'Chess'; ")
