"""`make gpu` without a GPU: it says so, it goes on after failures, and a rehearsal with tiny sizes."""

import json
import os
import runpy
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from checkout import ROOT
from gpu_check import __main__ as check
from gpu_check.device import missing
from gpu_check.hardware import describe
from gpu_check.page import page
from gpu_check.runner import run_all
from gpu_check.stages import Stage, all_stages, read_tests

MADE_ON = {"GPU": "one", "commit": "a"}


def stage(name, code, limit=60, found=None):
    def read():
        if found is None:
            raise OSError("it left nothing")
        return found

    return Stage(name, f"stage {name}", limit, [sys.executable, "-c", code], read)


def outcomes(work, *stages, made_on=MADE_ON):
    return {o.name: o for o in run_all(stages, Path.cwd(), work, made_on)}


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(check, "gpus", lambda: 0)
    assert check.main(["--work", str(tmp_path / "work")]) == 2
    said = capsys.readouterr()
    assert said.err == "make gpu needs a CUDA GPU, but the driver shows none\n"
    assert not said.out
    assert not (tmp_path / "work").exists()


def test_the_driver_is_asked_before_anything_is_installed():
    """By a Python that has nothing but itself."""
    program = [sys.executable, "-I", "-S", str(ROOT / "benchmarks/gpu_check/device.py")]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == (1 if done.returncode else 0)


@pytest.mark.parametrize(
    ("driver", "compiler", "headers", "said"),
    [
        (12080, "/usr/bin/cc", True, "a driver for CUDA 13; this one supports 12.8"),
        (
            13000,
            None,
            True,
            "a C compiler, but found neither gcc nor clang; try apt-get install gcc",
        ),
        (13000, "/usr/bin/cc", False, "has no Python.h; try apt-get install python3-dev"),
        (13010, "/usr/bin/gcc", True, None),
    ],
)
def test_what_a_machine_with_a_gpu_lacks_is_said(driver, compiler, headers, said, tmp_path):
    if headers:
        (tmp_path / "Python.h").touch()
    found = missing(driver, compiler, tmp_path)
    assert found is None if said is None else said in found


def test_a_stage_that_fails_or_hangs_does_not_end_the_others(tmp_path, capsys):
    found = outcomes(
        tmp_path / "work",
        stage("fails", "print('why'); raise SystemExit(3)"),
        stage("hangs", "import time; time.sleep(60)", limit=1),
        stage("leaves nothing", "pass"),
        stage("passes", "print('well')", found={"x": 1}),
    )
    assert {name: o.status for name, o in found.items()} == {
        "fails": "failed", "hangs": "timed out", "leaves nothing": "failed", "passes": "passed",
    }  # fmt: skip
    assert Path(found["fails"].log).read_text() == "why\n"
    assert found["passes"].found == {"x": 1}
    assert "[4/4] stage passes: passed" in capsys.readouterr().out


def test_what_has_passed_is_kept_on_the_same_machine_and_commit(tmp_path):
    count = tmp_path / "count"
    counting = stage("counts", f"open({str(count)!r}, 'a').write('x')", found={"x": 1})
    failing = stage("fails", f"open({str(count)!r}, 'a').write('f'); raise SystemExit(1)", found={})
    for made_on, expected in ((MADE_ON, "xf"), (MADE_ON, "xff"), ({"GPU": "two"}, "xffxf")):
        outcomes(tmp_path / "work", counting, failing, made_on=made_on)
        assert count.read_text() == expected


def test_the_page_that_a_run_writes_is_no_change_of_the_commit(tmp_path, monkeypatch):
    """Or the next run would not know its results, and begin anew."""
    page_file, code = tmp_path / "docs/performance-gpu.md", tmp_path / "code.py"
    page_file.parent.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for file in (page_file, code):
        file.write_text("before")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    commit = describe()["commit"]
    page_file.write_text("after")
    assert describe()["commit"] == commit
    code.write_text("after")
    assert describe()["commit"] == f"{commit}-dirty"


def test_the_limits_add_up_to_25_minutes(tmp_path):
    assert sum(s.limit for s in all_stages(ROOT, tmp_path, False)) <= 25 * 60


def test_the_page_says_what_is_not_measured(tmp_path):
    there = (ROOT / "docs/performance-gpu.md").read_text()
    assert there == page(None, []) or "| GPU |" in there
    assert "It has not been run on a GPU yet" in page(None, [])
    seconds = dict.fromkeys(("rollout", "games", "scores", "update", "sync"), 1.0) | {"total": 6.5}
    measured = stage(
        "paper-kept", "pass", found={"iterations": 2, "seconds": seconds, "torch_gib": 3.21}
    )
    text = page(MADE_ON, list(outcomes(tmp_path / "work", measured).values()))
    assert "| a quarter kept | ≤ 7 s | 6.5 s | met | 24 s |" in text
    assert "| all 128 trajectories learned from | ≤ 12 s | not measured |" in text
    assert "3.2" in text


def test_reports_of_tests_are_read(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 1 == 2\n"
        "def test_c(): pytest.skip('no | GPU')\n"
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull]
    subprocess.run(
        [*command, str(tmp_path / "test_it.py"), f"--junit-xml={report}"], capture_output=True, check=False
    )  # fmt: skip
    rows = read_tests(report)["tests"]
    assert [(r["test"], r["outcome"]) for r in rows] == [
        ("test_a", "passed"), ("test_b", "failed"), ("test_c", "skipped"),
    ]  # fmt: skip
    assert rows[2]["why"] == "no | GPU"


def test_an_engine_is_chosen_for_all_stages_that_roll_out(tmp_path):
    stages = all_stages(ROOT, tmp_path, False, "transformers")
    said = [" ".join([stage.title, *stage.command]) for stage in stages[1:]]
    assert len(said) == 4
    assert all("engine=transformers" in text and "vllm" not in text for text in said)


def test_the_gpu_is_not_looked_at_while_the_trainer_loads(monkeypatch, tmp_path):
    """vLLM captures CUDA graphs then, which fails if another thread calls CUDA meanwhile."""
    main = runpy.run_path(str(ROOT / "benchmarks/speed/paper_scale.py"))["main"]
    done = []

    class Trainer:
        def __init__(self, *_, **__):
            done.append("loaded")

        def run(self):
            done.append("run")

    @contextmanager
    def watched(_):
        done.append("watched")
        yield

    monkeypatch.setitem(main.__globals__, "Trainer", Trainer)
    monkeypatch.setattr(main.__globals__["Memory"], "watched", watched)
    monkeypatch.setattr(
        sys, "argv", ["paper_scale", "--shape", "tiny", "--model", str(tmp_path / "model")]
    )
    main()
    assert done == ["loaded", "watched", "run"]


def test_a_rehearsal_trains_and_measures(tmp_path):
    """All stages but the tests, of which a rehearsal takes a minute and more."""
    pytest.importorskip("peft")
    work = tmp_path / "work"
    only = [f"--only={name}" for name in ("starter", "paper-all", "paper-kept", "paper-lora")]
    command = [sys.executable, "-m", "gpu_check", "--cpu-rehearsal", "--work", str(work), *only]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for name in ("starter", "paper-all", "paper-kept", "paper-lora"):
        found = json.loads((work / f"{name}.json").read_text())["found"]
        assert found["iterations"] >= 1
        assert found["seconds"]["total"] > 0
    assert "| GPU | none: a rehearsal on a CPU |" in (work / "performance-gpu.md").read_text()
