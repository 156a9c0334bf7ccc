"""`ragen export`: the logs are those that Inspect itself reads and shows."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import ragen_bench as rb
from inspect_ai.log import list_eval_logs, read_eval_log
from ragen_bench.__main__ import main
from ragen_bench.evaluation.run_table import read_run, summarise

GAMES = ("Sokoban", "FrozenLake")

EXPORT = ("export", "--format", "inspect")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    games = [word for game in GAMES for word in ("--game", game)]
    agents = ["--agent", "random", "--agent", "oracle"]
    assert main(["bench", *agents, *games, "--episodes", "8", "--attempts", "2", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def logs(run):
    assert main([*EXPORT, str(run)]) == 0
    return run / "inspect"


def test_logs_hold_the_episodes_and_the_numbers_of_the_table(run, logs):
    found = {(log.eval.model, log.eval.task): log for log in map(read_eval_log, list_eval_logs(str(logs)))}
    table = summarise(read_run(run)).set_index(["agent", "game"])
    assert set(found) == set(table.index)
    records = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for (agent, game), log in found.items():
        own = {(e["instance"]["index"], e["attempt"] + 1): e
               for e in records if (e["agent"], e["task"]) == (agent, game)}  # fmt: skip
        assert log.status == "success"
        assert len(log.samples) == len(own) == 16
        assert sum(s.scores["success"].value for s in log.samples) == sum(e["success"] for e in own.values())
        metrics = log.results.scores[0].metrics
        for name in ("success", "score", "mean_return", "optimal_success"):
            assert metrics[name].value == pytest.approx(table.loc[(agent, game), name])
        for sample in log.samples:
            episode = own[sample.id, sample.epoch]
            texts = [message.text for message in sample.messages]
            said = [text for turn in episode["turns"] for text in (turn["user"], turn["reply"])]
            assert texts == [episode["system"], *said, episode["closing"]]


def test_an_unfinished_run_is_a_log_that_was_stopped(run, tmp_path):
    cut = tmp_path / "run"
    cut.mkdir()
    for name in ("config.yaml", "environment.json"):
        (cut / name).write_bytes((run / name).read_bytes())
    lines = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "episodes.jsonl").write_bytes(b"".join(lines[:5]))
    assert main([*EXPORT, str(cut), "--out", str(tmp_path / "logs")]) == 0
    (log,) = map(read_eval_log, list_eval_logs(str(tmp_path / "logs")))
    assert (log.status, len(log.samples)) == ("cancelled", 5)


def test_writing_again_gives_the_same_ids(run, logs, tmp_path):
    assert main([*EXPORT, str(run), "--out", str(tmp_path)]) == 0
    for path in logs.iterdir():
        first, second = (read_eval_log(str(folder / path.name)) for folder in (logs, tmp_path))
        assert first.eval == second.eval


def test_names_that_read_alike_together_have_logs_of_their_own(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "{name: a, version: 1, description: Two., episodes: 1, tasks: "
        "{A: {env: ragen/BanditText-v0}, A_b: {env: ragen/BanditText-v0}}}"
    )
    agents = {"b_c": lambda request: "", "c": lambda request: ""}
    run = rb.evaluate(agents, suite=str(suite), out=tmp_path / "run")
    assert main([*EXPORT, str(run.folder)]) == 0
    logs = [read_eval_log(log) for log in list_eval_logs(str(run.folder / "inspect"))]
    assert len({(log.eval.task, log.eval.model) for log in logs}) == len(logs) == 4


def test_names_that_differ_in_case_have_files_that_differ_in_more(tmp_path):
    agents = {"Mine": lambda request: "", "mine": lambda request: ""}
    run = rb.evaluate(agents, games="Bandit", episodes=1, out=tmp_path / "run")
    assert main([*EXPORT, str(run.folder)]) == 0
    assert len({path.name.lower() for path in (run.folder / "inspect").iterdir()}) == 2


def test_a_success_that_is_not_defined_is_no_score(tmp_path):
    run = rb.evaluate("random", games="CliffWalking-v1", episodes=1, out=tmp_path / "run")
    assert main([*EXPORT, str(run.folder)]) == 0
    (log,) = [read_eval_log(log) for log in list_eval_logs(str(run.folder / "inspect"))]
    assert set(log.samples[0].scores) == {"return"}


def test_the_viewer_lists_the_logs(logs):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).with_name("inspect")
    words = [program, "view", "start", "--log-dir", logs, "--port", str(port)]
    viewer = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/logs", timeout=5) as answer:
                    shown = answer.read().decode()
                break
            except OSError:
                time.sleep(0.1)
        assert all(path.name in shown for path in logs.iterdir())
    finally:
        viewer.terminate()
        viewer.wait(30)


def test_what_cannot_be_exported_is_said(tmp_path, capsys):
    assert main([*EXPORT, str(tmp_path / "none")]) == 2
    assert "there is no run directory" in capsys.readouterr().err
