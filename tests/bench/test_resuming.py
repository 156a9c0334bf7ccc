"""`ragen bench` resumes: interrupted, killed or continued after an upgrade."""

import json
import os
import random
import signal
import time

import pytest
from bench_runs import bench, count_lines, options, python, timeless
from forked import start
from interrupted_runs import cut
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import load_config
from ragen_bench.evaluation import runner
from ragen_bench.evaluation.run_table import read_run, summarise
from ragen_bench.runs.directory import RunDirectory
from ragen_bench.runs.environments import versions_of

from ragen_envs.errors import RagenError


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2, 0.37, 0.5, 0.8, 0.9999])
def test_a_run_cut_anywhere_ends_the_same(run, share):
    expected = timeless(run)
    cut(run, int(share * (run / "episodes.jsonl").stat().st_size), torn=40)
    bench(run, episodes=40)
    assert timeless(run) == expected
    assert main(["verify", str(run)]) == 0


@pytest.mark.parametrize("tail", [b"{", b"{}\n", b"\x00" * 50, b"\xff\xfe\n"])
def test_a_broken_last_line_is_tolerated(run, tail, capsys):
    whole = (run / "episodes.jsonl").read_bytes()
    (run / "episodes.jsonl").write_bytes(whole + tail)
    assert main(["show", str(run)]) == 0
    assert "last line" in capsys.readouterr().out
    bench(run, episodes=40)
    assert (run / "episodes.jsonl").read_bytes() == whole


@pytest.mark.parametrize("left", [(), ("config.tmp",), ("environment.json", "config.tmp")])
def test_killed_before_its_config_was_there_a_run_begins_again(left, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    for name in ("episodes.jsonl", *left):
        (out / name).write_text("half" if name == "config.tmp" else "")
    bench(out)
    assert len(timeless(out)) == 36
    assert json.loads((out / "environment.json").read_text())["python"]
    assert not list(out.glob("*.tmp"))


def test_a_chunk_is_replayed_as_a_whole(run, monkeypatch):
    """What a model's batch was made of decides its rounding."""
    lines = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(lines[:-1]))
    (run / "episodes.sha256").unlink()
    played = []
    play = runner.play_batch
    monkeypatch.setattr(
        runner,
        "play_batch",
        lambda specs, *rest: played.append([s.index for s in specs]) or play(specs, *rest),
    )
    bench(run, episodes=40)
    assert played == [list(range(runner.CONTROL_CHUNK, 40))]


def test_a_changed_line_is_not_gone_on_with(run, capsys):
    text = (run / "episodes.jsonl").read_text()
    (run / "episodes.jsonl").write_text(text.replace("random</think>", "rndom</think>", 1))
    assert main(options(run, episodes=40)) == 2
    assert "line 1 was changed" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [0, 1, -1, None])
def test_removed_lines_are_not_played_again(run, kept, fails):
    """An interruption leaves no hash without its line."""
    path = run / "episodes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    left = b"".join(lines)[:-9] if kept is None else b"".join(lines[:kept])
    path.write_bytes(left)
    there = len(lines[:-1] if kept is None else lines[:kept])
    error = fails(*options(run, episodes=40))
    assert f"line {there + 1} was changed or removed after it was written" in error
    assert f"episodes.sha256 has {len(lines)} episodes, but {there} can be read" in error
    assert path.read_bytes() == left


def test_a_run_names_all_versions_that_played_it(run, tmp_path, capsys):
    path = run / "environment.json"
    now = json.loads(path.read_text())
    del now["digest"]  # as runs of older versions
    path.write_text(json.dumps({**now, "packages": {**now["packages"], "numpy": "1.0"}}))
    bench(run, episodes=40)  # nothing is left to play
    assert "continued_with" not in path.read_text()
    cut(run, (run / "episodes.jsonl").stat().st_size - 9)
    capsys.readouterr()
    bench(run, episodes=40)
    numpy = now["packages"]["numpy"]
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "warning: " in each]
    assert line.endswith(f"which may change replies: numpy was 1.0 and is {numpy}")
    written = json.loads(path.read_text())
    assert written["packages"]["numpy"] == "1.0"
    assert [later["packages"] for later in written["continued_with"]] == [now["packages"]]
    assert versions_of(run) == {
        **now["packages"],
        "python": now["python"],
        "numpy": f"1.0, {numpy}",
    }
    cut(run, (run / "episodes.jsonl").stat().st_size - 9)
    bench(run, episodes=40)  # the same versions again
    assert json.loads(path.read_text()) == written
    assert "warning: " not in capsys.readouterr().err
    assert main(["show", str(run), "--format", "json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert f"played with several versions: numpy 1.0, {numpy}" in notes


@pytest.mark.parametrize("version", [1, [1], None])
def test_versions_that_are_no_text_are_not_shown(version, run, capsys):
    path = run / "environment.json"
    now = json.loads(path.read_text())
    del now["digest"]
    path.write_text(json.dumps({**now, "continued_with": [{"packages": {"a": version}, "python": "3"}]}))
    assert main(["show", str(run)]) == 0
    assert "several versions" not in capsys.readouterr().out
    with pytest.raises(RagenError, match="cannot be read"):
        versions_of(run)


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    play = runner.play_batch
    calls = iter(range(100))

    def interrupted(*arguments):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return play(*arguments)

    monkeypatch.setattr(runner, "play_batch", interrupted)
    assert main(options(tmp_path / "run")) == 130
    error = capsys.readouterr().err
    assert "the same command resumes" in error
    assert "Traceback" not in error
    assert len(timeless(tmp_path / "run")) == 12
    bench(tmp_path / "run")
    assert len(timeless(tmp_path / "run")) == 36


def test_a_real_ctrl_c_ends_with_130(tmp_path):
    log = tmp_path / "log"
    process = start(["-m", "ragen_bench", *options(tmp_path / "run", episodes=1024)], stdout=log)
    while process.is_alive() and not count_lines(tmp_path / "run"):
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGINT)
    process.join(300)
    error = log.read_text()
    assert process.exitcode == 130
    assert "the same command resumes" in error
    assert "Traceback" not in error


def test_a_full_disk_loses_nothing_that_was_written(tmp_path, monkeypatch, capsys):
    calls = iter(range(100))
    sync = os.fsync

    def fsync(file):
        if next(calls) == 6:
            raise OSError(28, "No space left on device")
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    assert main(options(tmp_path / "run")) == 2
    assert "No space left" in capsys.readouterr().err
    bench(tmp_path / "run")
    assert timeless(tmp_path / "run") == timeless(bench(tmp_path / "other"))


def test_two_runs_at_once_are_refused(run, capsys):
    with RunDirectory(run, load_config(run)):
        assert main(options(run, episodes=40)) == 2
    assert "in use" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_at_any_moment_a_run_ends_the_same(tmp_path):
    what = {"episodes": 192, "agents": ("random", "oracle")}
    out, rng, kills = tmp_path / "killed", random.Random(0), 0
    for _ in range(6):
        done = count_lines(out)
        target = done + rng.randint(1, 200)
        process = start(["-m", "ragen_bench", *options(out, **what)], stdout=os.devnull)
        while process.is_alive() and count_lines(out) < target:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if kills == 4:
            break
    assert kills >= 2
    bench(out, **what)
    assert timeless(out) == timeless(bench(tmp_path / "whole", **what))
    first, second = (summarise(read_run(tmp_path / name)) for name in ("killed", "whole"))
    assert first.drop(columns="seconds").equals(second.drop(columns="seconds"))


def test_results_depend_on_no_hash_seed_and_no_process(tmp_path, capsys):
    done = python("-m", "ragen_bench", *options(tmp_path / "other"), "--format", "json", PYTHONHASHSEED="1")
    assert done.returncode == 0, done.stderr
    capsys.readouterr()
    bench(tmp_path / "this", "--format", "json")  # strings hash otherwise in this process
    tables = [
        [{k: v for k, v in row.items() if k != "seconds"} for row in json.loads(printed)["rows"]]
        for printed in (done.stdout, capsys.readouterr().out)
    ]
    assert tables[0] == tables[1]
    assert timeless(tmp_path / "other") == timeless(tmp_path / "this")


def test_the_order_of_options_makes_no_other_run(tmp_path):
    settings = ["--setting", "max_turns=3"], ["--setting", "history=none"]
    games = ["--game", "Sudoku"], ["--game", "Bandit"]
    command = ["bench", "--agent", "random", "--episodes", "1", "--out", str(tmp_path / "run")]
    for first, second in ((0, 1), (1, 0)):
        assert main([*command, *settings[first], *settings[second], *games[first], *games[second]]) == 0
    assert count_lines(tmp_path / "run") == 2
