"""The distributions hold what they should, and an installed suite shows its types to a user's checker."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from checkout import ROOT, git, require_checkout

PACKAGES = ("ragen_envs", "ragen_agents", "benchmarks/ragen_bench")
BESIDE = ("pyproject.toml", ".gitignore", "README.md", "LICENSE")


def build(kind, source, out):
    """Build a distribution, by what is installed here, and return its path."""
    pytest.importorskip("hatchling")
    program = f"from hatchling import build; build.build_{kind}({str(out)!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def leave_a_cache_behind(source):
    """What numba and Python write beside a module when it runs."""
    cache = source / "ragen_envs" / "games" / "sokoban" / "__pycache__"
    cache.mkdir()
    for name in ("search.grown-46.py311.nbi", "search.cpython-311.pyc"):
        (cache / name).write_bytes(b"junk")


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(tmp_path):
    source = tmp_path / "source"
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    for name in BESIDE:
        shutil.copy(ROOT / name, source)
    folders = [source / package for package in PACKAGES]
    expected = {
        path.relative_to(folder.parent).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }
    leave_a_cache_behind(source)
    with zipfile.ZipFile(build("wheel", source, tmp_path / "out")) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected
    assert {f"{name.rpartition('/')[2]}/py.typed" for name in PACKAGES} <= found
    for name in (
        "new_game/template/newgame/__init__.py",
        "new_game/template_words/newgame/__init__.py",
        "suites/core.yaml",
        "training_sweeps/filter.yaml",
    ):
        assert f"ragen_bench/{name}" in found


def test_the_source_distribution_holds_the_repository(tmp_path):
    require_checkout()
    source = tmp_path / "source"
    tracked = git("ls-files", "-z").split("\0")[:-1]
    expected = {name for name in tracked if (ROOT / name).exists()}
    for name in expected:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    leave_a_cache_behind(source)
    with tarfile.open(build("sdist", source, tmp_path / "out")) as archive:
        found = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    assert found - {"PKG-INFO"} == expected


@pytest.mark.slow
def test_a_user_s_checker_reads_the_types_of_the_install(tmp_path):
    """``make lint`` checks the same file with mypy."""
    pytest.importorskip("pyright")
    if not shutil.which("node"):
        pytest.skip("without node, pyright would download one")
    source = (ROOT / "tests" / "data" / "typed_user.py").read_text("utf-8")
    (tmp_path / "user.py").write_text(source.replace("  # type: ignore[assignment]", ""), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "user.py"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if " - error:" in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert '"Run"' in errors[0]
    assert '"int"' in errors[0]
