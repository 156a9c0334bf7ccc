"""Every cell of a tutorial runs, with the smaller sizes that its page names."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("transformers")

from forked_command import ragen_in

FILE = Path(__file__).parents[2] / "docs" / "tutorials.py"
SPEC = importlib.util.spec_from_file_location("tutorials", FILE)
tutorials = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tutorials)

ELSEWHERE = ("add-a-game", "fine-tune", "reproduce-a-table", "train-sokoban")
"""Whose commands other tests run, on other pages and for sweeps; ``make tutorials`` runs them whole."""
RUN = [page for page in tutorials.pages() if page.stem not in ELSEWHERE]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with ``ragen``, on Linux one that is forked."""
    if not Path("/proc").is_dir():
        yield Path(sys.executable).parent
        return
    folder = tmp_path_factory.mktemp("programs")
    with ragen_in(folder):
        yield folder


@pytest.fixture
def quick_run(programs, monkeypatch):
    """Run a page at small sizes."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return lambda page, folder: tutorials.run(page, folder, quick=True, programs=programs)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_tutorial_runs_from_top_to_bottom(page, quick_run, tmp_path):
    quick_run(page, tmp_path)


def test_a_quick_run_replaces_sizes_that_are_there():
    for page in tutorials.pages():
        text = page.read_text("utf-8")
        for before, _ in tutorials.QUICK.findall(text):
            assert tutorials.QUICK.sub("", text).count(before), (page, before)


def test_the_notebooks_are_those_of_the_pages():
    command = [sys.executable, str(FILE), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_cell_that_fails_is_seen(quick_run, tmp_path):
    from nbclient.exceptions import CellExecutionError

    page = tmp_path / "wrong.md"
    page.write_text("# Wrong\n\n```bash\nragen bench --no-such-option\n```\n")
    with pytest.raises(CellExecutionError, match="no-such-option"):
        quick_run(page, tmp_path)
