"""`make gpu` without a GPU: what it prints and keeps, how it resumes and falls back, and small rehearsals."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from checkout import ROOT
from gpu_check import __main__ as check
from gpu_check import phase_memory
from gpu_check.console import MOST, Console
from gpu_check.device import missing
from gpu_check.hardware import describe
from gpu_check.page import PUBLISHED, page
from gpu_check.results import Outcome, Results, read_results
from gpu_check.runner import Runner
from gpu_check.stages import STAGES, Attempt, Stage, chosen_stages
from gpu_check.summary import Numbers, as_text
from gpu_check.updates import Bench
from gpu_check.variants import BFLOAT16

MADE_ON = {"GPU": "one", "PyTorch": "2", "commit": "a"}


class Script(Stage):
    """A stage that runs a line of Python, which may call `found(...)`."""

    def command(self, findings, common):
        head = (
            "import json, os, sys, time\n"
            f"def found(**more): open({str(findings)!r}, 'w').write(json.dumps(more))\n"
        )
        return [sys.executable, "-c", head + self.module]


def script(name, code, limit=60, **more):
    return Script(name, f"stage {name}", limit, code, **more)


def outcomes(folder, *stages, made_on=MADE_ON, seconds=600.0, results=None):
    results = results or Results(folder / "results", folder / "work")
    deadline = time.monotonic() + seconds
    Runner(Path.cwd(), folder / "work", [], made_on, deadline).run_all(stages, results, Console())
    return {outcome.name: outcome for outcome in results.outcomes}


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(check, "gpus", lambda: 0)
    assert check.main(["--results", str(tmp_path / "results")]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("gpu_check needs a CUDA GPU, but the driver shows none")
    assert not printed.out
    assert not (tmp_path / "results").exists()


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
    lacks = missing(driver, compiler, tmp_path)
    assert lacks is None if said is None else said in lacks


def test_a_stage_that_fails_or_hangs_does_not_end_the_others(tmp_path, capsys):
    ended = outcomes(
        tmp_path,
        script("fails", "print('the reason'); found(wrong='in short'); raise SystemExit(3)"),
        script("hangs", "found(running='a part'); time.sleep(60)", limit=2),
        script("leaves nothing", "pass"),
        script("passes", "print('well'); found(x=1)"),
    )
    assert {name: (o.status, o.why) for name, o in ended.items()} == {
        "fails": ("failed", "in short"), "hangs": ("timed out", "ended during a part"),
        "leaves nothing": ("failed", ""), "passes": ("passed", ""),
    }  # fmt: skip
    assert ended["passes"].found == {"x": 1}
    printed = capsys.readouterr().out
    assert "  the reason\n" in printed
    assert "well" not in printed
    assert "the reason" in (tmp_path / "results/logs.txt").read_text()


def test_a_second_call_continues_where_the_first_stopped(tmp_path):
    """From the folder of results, or if that is new from the one of large files."""
    count = tmp_path / "count"
    counts = script("counts", f"open({str(count)!r}, 'a').write('x'); found(x=1)")
    fails = script("fails", f"open({str(count)!r}, 'a').write('f'); raise SystemExit(1)")
    (tmp_path / "results").mkdir()
    (tmp_path / "results/other").write_text("kept")
    for made_on, results, expected in (
        (MADE_ON, "results", "xf"),
        (MADE_ON, "results", "xff"),
        (MADE_ON, "another", "xfff"),
        (MADE_ON | {"commit": "b"}, "results", "xfffxf"),
    ):
        folder = Results(tmp_path / results, tmp_path / "work")
        outcomes(tmp_path, counts, fails, made_on=made_on, results=folder)
        assert count.read_text() == expected
    assert (tmp_path / "results/other").read_text() == "kept"


def test_what_there_is_no_time_for_is_skipped_and_keeps_what_was_found(tmp_path):
    before = outcomes(tmp_path, script("fails", "found(x=1); raise SystemExit(1)"))
    after = outcomes(
        tmp_path,
        script("quick", "found(x=1)", limit=5),
        script("fails", "found(x=1)", limit=100),
        script("long", "found(x=1)", limit=100),
        seconds=20,
    )
    assert after["quick"].status == "passed"
    assert after["fails"] == before["fails"]
    assert (after["long"].status, after["long"].why) == ("skipped", "no time was left")


def test_other_ways_to_start_are_tried_until_one_does(tmp_path):
    code = (
        "extra = json.loads(sys.argv[-1])\n"
        "ready = extra.get('enforce_eager') and os.environ.get('SWITCH') == '1'\n"
        "found(**({'start': {}} if ready else {'wrong': 'no kernel'}))\n"
        "raise SystemExit(0 if ready else 1)"
    )
    ways = (
        Attempt("default", {}, {}), Attempt("eager", {"enforce_eager": True}, {"SWITCH": "1"}),
        Attempt("last", {}, {}),
    )  # fmt: skip
    ended = outcomes(
        tmp_path,
        script("starts", code, attempts=ways),
        script("never", code, attempts=ways[:1] + ways[2:]),
    )
    assert ended["starts"].status == "passed"
    assert ended["starts"].why == "started with eager after default had failed"
    assert ended["starts"].found["tried"] == ["default", "eager"]
    assert ended["never"].status == "failed"
    assert ended["never"].why == "never started after default had failed; no kernel"


def test_output_is_short_whatever_is_printed(tmp_path, capsys):
    console = Console()
    for _ in range(30):
        console.line("a stage failed")
        console.excerpt("x" * 500 + "\n" + "y" * 5000)
    console.table("z" * 20_000)
    printed = capsys.readouterr().out
    assert len(printed) <= MOST
    assert printed.count("z") >= 3000


def test_commit_is_an_argument_where_git_cannot_be_asked(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert describe("abc")["commit"] == "abc"
    assert describe()["commit"] == "unknown"


def test_stages_of_both_calls_fit_their_time():
    limits = {stage.name: stage.limit for stage in STAGES}
    assert limits["vllm"] <= 400
    assert [stage.name for stage in chosen_stages(["vllm", "update"])] == ["vllm", "update"]


def iteration_findings():
    seconds = dict.fromkeys(("rollout", "games", "scores", "update", "sync"), 1.0) | {"total": 6.5}
    memory = {"update": {"planned": 40.0, "reserve": 3.7, "torch": 30.0, "device": 50.0}}
    return {
        "seconds": seconds, "memory": memory, "reply_tokens_per_second": 20_000,
        "reply_tokens_per_second_of_rollout": 40_000, "learned": {"mismatch_mean": 0.001},
    }  # fmt: skip


def test_the_page_says_what_is_measured_and_what_is_not(tmp_path):
    update = {
        "seconds": {"policy": 1.0, "critic": 0.5, "step": 0.1}, "mfu": {"policy": 0.5, "both": 0.45},
        "memory": {"update": {"planned": 25.0, "reserve": 3.5, "torch": 21.0, "device": 23.0}},
    }  # fmt: skip
    start = {"vllm_seconds": 61.2, "attention": ["FLASH_ATTN"], "runner": "vllm.v1.worker.gpu.R"}
    found = [
        Outcome("update", "Update", "passed", 9.0, found={"bfloat16": update}, made_on=MADE_ON),
        Outcome("vllm", "vLLM", "failed", 99.0, "tests: a | b", {
            "start": start, "quarter_kept": iteration_findings(), "tried": ["default"],
            "tests": [{"test": "test_a", "outcome": "failed", "why": "1 | 2"}],
        }, MADE_ON),
    ]  # fmt: skip
    text = page(found)
    assert "| an iteration that keeps a quarter | ≤ 7 s | 6.5 s | met |" in text
    assert "| an iteration that learns from all 128 trajectories | ≤ 12 s | not measured |" in text
    assert "| MFU of the update | ≥ 40% | 45% | met |" in text
    assert "| peak of the device beyond the plan | ≤ 10% | +25% | **not met** |" in text
    assert "| a lost update of 1e-6 | noticed | not measured |  |" in text
    assert "| bfloat16 | 1.00 | 0.50 | 0.10 | 50% |  | 45% | 21.0 | 21.5 |" in text
    assert "| attention | FLASH_ATTN |" in text
    assert "| `test_a` | failed | 1 \\| 2 |" in text
    assert "not been run" not in text
    assert "61 s" in as_text(Numbers(found).tables())


def test_the_page_in_the_checkout_is_that_of_the_results_beside_it():
    assert (ROOT / "docs/performance-gpu.md").read_text() == page(read_results(PUBLISHED))
    assert "It has not been run on a GPU yet" in page([])


def test_a_page_is_written_from_results_elsewhere_and_keeps_them(monkeypatch, tmp_path):
    outcomes(tmp_path, script("ceilings", "found(copy_gb_s=2900.0)"))
    target, published = tmp_path / "page.md", tmp_path / "published"
    monkeypatch.setattr(check, "PUBLISHED", published)
    check.main(["page", str(tmp_path / "results"), "--to", str(target)])
    assert "| copied bytes, read and written, GB/s | 2,900.0 |" in target.read_text()
    assert not published.exists()
    monkeypatch.setattr(check, "PAGE", tmp_path / "docs.md")
    check.main(["page", str(tmp_path / "results")])
    assert (tmp_path / "docs.md").read_text() == target.read_text() == page(read_results(published))


def test_peaks_are_noted_by_phase(monkeypatch):
    """Each phase has its own, also where a step interrupts an update."""
    peaks = iter([10, 20, 30, 40, 50])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(peaks) * 2**30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 80 * 2**30))
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])

    class Learner:
        critic_optimizer = None

        def prepare(self):
            return "prepared"

        def update(self, iteration):
            self.optimizer.step()
            return iteration

    learner = Learner()
    learner.optimizer = optimizer
    memory = phase_memory.PhaseMemory()
    memory.attach(learner)
    assert learner.update(3) == 3
    assert memory.torch_gib == {"rollout": 10, "update": 40, "step": 30}
    assert set(memory.device_gib.values()) == {79}


def test_an_update_is_measured_on_a_cpu():
    row = Bench(tiny=True).measure(BFLOAT16[0])
    assert row["seconds"]["update"] > 0
    assert row["tflops"].keys() == {"policy", "critic", "both"}
    assert row["memory"]["update"]["planned"] > 0


def test_two_calls_of_a_rehearsal(tmp_path, monkeypatch, capsys):
    """As on a machine without installation; vLLM's stage runs in tests/vllm."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")]))
    common = ["--tiny", "--results", str(tmp_path / "results"), "--work", str(tmp_path / "work")]
    printed = []
    for stages in ("iteration", "vllm,iteration"):
        code = check.main([*common, "--commit", "abc", "--stages", stages])
        printed.append(capsys.readouterr().out)
        assert code == 0, printed
    assert "iteration: passed, " in printed[0]
    assert "iteration: passed before" in printed[1]
    assert "vllm: skipped, 0 s: vLLM is not installed" in printed[1]
    found = {o.name: o.found for o in read_results(tmp_path / "results")}
    assert found["iteration"]["seconds"]["total"] > 0
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["logs.txt", "results.json"]
