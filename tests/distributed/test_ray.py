"""`--backend ray`: the results of one process, whatever happens to the machines."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from installed import require

require("ray", "transformers")

from forked import start  # noqa: E402
from ragen_bench.__main__ import main  # noqa: E402
from ragen_bench.config.suites import SamplingSettings  # noqa: E402
from ragen_bench.evaluation import ray_cluster  # noqa: E402
from ragen_bench.training_sweeps.results import parse_result  # noqa: E402
from small_sweeps import command, processes_of, small_sweep, wait_for  # noqa: E402

from ragen_envs.errors import RagenError  # noqa: E402

ATTEMPTS = "10"
"""Enough that a run is killed before its end."""


def words(out, *more, agents=("random",), games=("Sokoban",), episodes=96):
    named = [word for agent in agents for word in ("--agent", str(agent))]
    played = [word for game in games for word in ("--game", game)]
    return ["bench", *named, *played, "--episodes", str(episodes), *more, "--out", str(out)]


def begin(machines, arguments, log):
    """Start a command in a process of its own, which can be killed."""
    environment = {"RAY_ADDRESS": machines.address}
    return start(["-m", "ragen_bench", *arguments, "--backend", "ray"], stdout=log, environment=environment)


def finish(process, log):
    process.join(300)
    assert process.exitcode == 0, log.read_text()


def replace_second(machines):
    """Kill the second machine; another joins."""
    (raylet,) = machines.second.all_processes["raylet"]
    os.kill(raylet.process.pid, signal.SIGKILL)
    machines.second = machines.add_node(num_cpus=1)


def episodes(out):
    """Return the lines of a run without the seconds that they took."""
    played = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    for line in played:
        for turn in line["turns"]:
            turn.pop("seconds")
    return played


def lines(path):
    return path.read_text().count("\n") if path.exists() else 0


def test_two_machines_write_what_one_process_writes(on_ray, tiny, tmp_path):
    what = {"agents": ("random", tiny), "games": ("Bandit", "BanditRev"), "episodes": 20}
    limit = ("--max-reply-tokens", "8")
    assert main(words(tmp_path / "local", *limit, **what)) == 0
    assert main([*words(tmp_path / "ray", *limit, **what), "--backend", "ray"]) == 0
    assert episodes(tmp_path / "ray") == episodes(tmp_path / "local")
    assert main(["verify", str(tmp_path / "ray")]) == 0


def test_verify_on_two_machines_says_what_one_process_says(on_ray, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(words(out, "--attempts", "4")) == 0
    path = out / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[300] = lines[300].replace('"success":false', '"success":true')
    path.write_text("".join(lines))
    said = []
    for backend in ("local", "ray"):
        capsys.readouterr()
        assert main(["verify", str(out), "--backend", backend]) == 1
        said.append(capsys.readouterr().err)
    assert "MISMATCH" in said[1]
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


def test_other_weights_on_a_machine_are_one_line(tiny, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    with pytest.raises(RagenError, match="differ from those of the machine that began the run"):
        ray_cluster._policy(str(model), "0" * 64, SamplingSettings(), ())


def test_a_model_that_a_machine_cannot_load_ends_the_run(on_ray, tiny, tmp_path, fails):
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    assert "on the cluster: " in fails(*words(tmp_path / "out", agents=(model,)), "--backend", "ray")
    assert not (tmp_path / "out").exists()


def test_a_killed_run_goes_on_and_outlives_a_machine(machines, tmp_path):
    assert main(words(tmp_path / "local", "--attempts", ATTEMPTS)) == 0
    arguments = words(tmp_path / "ray", "--attempts", ATTEMPTS)
    log, written = tmp_path / "log", tmp_path / "ray" / "episodes.jsonl"
    killed = begin(machines, arguments, log)
    wait_for(lambda: lines(written) or killed.exitcode is not None)
    killed.kill()
    killed.join()
    before = lines(written)
    run = begin(machines, arguments, log)
    wait_for(lambda: lines(written) > before or run.exitcode is not None)
    assert 0 < before < lines(written) < 96 * int(ATTEMPTS), log.read_text()
    replace_second(machines)
    finish(run, log)
    assert episodes(tmp_path / "ray") == episodes(tmp_path / "local")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_a_killed_sweep_leaves_no_process_and_outlives_a_machine(machines, tiny, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    arguments = command(small_sweep(tmp_path, iterations=3), tiny, out)
    killed = begin(machines, arguments, log)
    wait_for(lambda: len(processes_of(out)) == 2 or killed.exitcode is not None)
    assert killed.exitcode is None, log.read_text()
    killed.kill()
    wait_for(lambda: not processes_of(out))
    run = begin(machines, arguments, log)
    wait_for(lambda: len(processes_of(out)) == 2 or run.exitcode is not None)  # one on each machine
    replace_second(machines)
    finish(run, log)
    results = [parse_result(path.read_text(), "result") for path in out.rglob("result.json")]
    assert sorted(len(result.iterations) for result in results) == [0, 4]


def test_where_levels_are_played_is_checked(tmp_path, capsys):
    assert main(words(tmp_path / "out", "--backend", "moon")) == 2
    assert "--backend is 'moon', but must be local or ray" in capsys.readouterr().err
    assert main(words(tmp_path / "out", "--gpus", "1")) == 2
    assert "only for --backend ray" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
