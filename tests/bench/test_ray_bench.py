"""`ragen bench --backend ray`: the episodes of one process, whatever happens to the machines."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("ray")

from ragen_bench.__main__ import main
from ragen_bench.config.suites import SamplingSettings
from ragen_bench.evaluation import ray_cluster

from ragen_envs.errors import RagenError

ATTEMPTS = "25"
"""Enough that a run is killed before its end."""


def words(out, *more, agents=("random",), games=("Sokoban",), episodes=96):
    named = [word for agent in agents for word in ("--agent", str(agent))]
    played = [word for game in games for word in ("--game", game)]
    return ["bench", *named, *played, "--episodes", str(episodes), *more, "--out", str(out)]


def begin(cluster, arguments):
    command = [sys.executable, "-m", "ragen_bench", *arguments, "--backend", "ray"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                            text=True)  # fmt: skip


def episodes(out):
    """Return the lines of a run without the seconds that they took."""
    played = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    for line in played:
        for turn in line["turns"]:
            turn.pop("seconds")
    return played


def lines(out):
    path = out / "episodes.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A run that is long enough to be interrupted, played in one process."""
    out = tmp_path_factory.mktemp("runs") / "local"
    assert main(words(out, "--attempts", ATTEMPTS)) == 0
    return out


def test_a_machine_is_killed_and_another_joins(cluster, local, tmp_path):
    run = begin(cluster, words(tmp_path / "ray", "--attempts", ATTEMPTS))
    deadline = time.monotonic() + 200
    while not lines(tmp_path / "ray"):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.05)
    (raylet,) = cluster.second.all_processes["raylet"]
    os.kill(raylet.process.pid, signal.SIGKILL)
    cluster.add_node(num_cpus=1)
    assert lines(tmp_path / "ray") < 96 * int(ATTEMPTS), "it was killed in mid-run"
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    assert episodes(tmp_path / "ray") == episodes(local)


def test_two_machines_write_what_one_process_writes(machines, tiny, tmp_path):
    what = {"agents": ("random", tiny), "games": ("Sokoban", "Bandit"), "episodes": 80}
    limit = ("--max-reply-tokens", "8")
    assert main(words(tmp_path / "local", *limit, **what)) == 0
    run = begin(machines, words(tmp_path / "ray", *limit, **what))
    _, said = run.communicate(timeout=300)
    assert run.returncode == 0, said
    assert episodes(tmp_path / "ray") == episodes(tmp_path / "local")
    assert main(["verify", str(tmp_path / "ray")]) == 0


def test_a_killed_run_goes_on(machines, local, tmp_path):
    arguments = words(tmp_path / "ray", "--attempts", ATTEMPTS)
    run = begin(machines, arguments)
    while not lines(tmp_path / "ray"):
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.05)
    run.kill()
    run.communicate()
    assert main(arguments) == 0  # in this process
    assert episodes(tmp_path / "ray") == episodes(local)


def test_verify_on_two_machines_says_what_one_process_says(machines, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(words(out, "--attempts", "4")) == 0
    capsys.readouterr()
    path = out / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[300] = lines[300].replace('"success":false', '"success":true')
    path.write_text("".join(lines))
    assert main(["verify", str(out)]) == 1
    said = capsys.readouterr().err
    on_ray = begin(machines, ["verify", str(out)])
    _, same = on_ray.communicate(timeout=200)
    assert on_ray.returncode == 1
    assert "MISMATCH" in same
    assert same.splitlines()[-1] == said.splitlines()[-1]


def test_other_weights_on_a_machine_are_one_line(tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    with pytest.raises(RagenError, match="differ from those of the machine that began the run"):
        ray_cluster._policy(str(model), "0" * 64, SamplingSettings(), ())


def test_a_model_that_a_machine_cannot_load_ends_the_run(machines, tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    run = begin(machines, words(tmp_path / "out", agents=(model,)))
    _, said = run.communicate(timeout=200)
    assert run.returncode == 2
    assert "on the cluster: " in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_where_levels_are_played_is_checked(tmp_path, capsys):
    assert main(words(tmp_path / "out", "--backend", "moon")) == 2
    assert "--backend is 'moon', but must be local or ray" in capsys.readouterr().err
    assert main(words(tmp_path / "out", "--gpus", "1")) == 2
    assert "only for --backend ray" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
