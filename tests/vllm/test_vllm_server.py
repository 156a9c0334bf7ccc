"""A real server: beside the engines of this process, killed while a run trains, and asked by the harness."""

import subprocess
import time

import pytest
from accelerate import Accelerator
from training_runs import torchrun, two_processes_environment
from vllm_commands import RAGEN, SUITE, lines, ragen
from vllm_rollouts import TOKENS, assert_same, beside, changed, collect

from ragen_agents.engines.vllm.engine import VllmEngine
from ragen_agents.engines.vllm.served import ServedEngine, ServedModel
from ragen_agents.starpo.processes import RunProcesses


@pytest.fixture
def engine(serving, starter, codec, tmp_path):
    """The engine with the starter's own weights."""
    model = ServedModel(serving.url, starter.config.vocab_size, 300, 300)
    alone = RunProcesses(Accelerator(cpu=True))
    ours = ServedEngine([model], True, tmp_path, codec.stop_token_ids, TOKENS, 2048, "test-", alone)
    ours.sync(starter, 0)
    yield ours
    ours.close()
    assert not list(tmp_path.iterdir())


def test_greedy_trajectories_are_those_of_the_transformers_engine(engine, starter, codec):
    found = collect(engine, codec, "Sokoban", 0.0)
    assert_same(found, collect(beside(starter, codec), codec, "Sokoban", 0.0))


def test_sampled_trajectories_are_those_of_vllm_in_this_process(engine, local, starter, codec):
    near = VllmEngine(local, codec.stop_token_ids, TOKENS)
    near.sync(starter, 0)
    found = collect(engine, codec, "FrozenLake", 0.7)
    assert len({len(trajectory.turns) for trajectory in found}) > 1
    assert_same(found, collect(near, codec, "FrozenLake", 0.7))


def test_new_weights_of_a_tied_model_arrive_through_a_folder(engine, starter, codec):
    assert starter.config.tie_word_embeddings
    before = collect(engine, codec, "Sokoban", 0.0)
    engine.sync(changed(starter), 1)
    found = collect(engine, codec, "Sokoban", 0.0)
    assert [t.ids for t in found] != [t.ids for t in before]
    assert_same(found, collect(beside(starter, codec), codec, "Sokoban", 0.0))


def arguments(out, url):
    return [
        "train", "frozenlake", "--preset", "starpo-s", "--out", out, "engine=vllm-server",
        f"server.url={url}", "server.outage_timeout=600", "iterations=2", "rollout.prompts_per_iteration=4",
        "rollout.group_size=4", "rollout.max_tokens=60", "update.mini_batch_size=4", "evaluation.every=0",
    ]  # fmt: skip


def is_rolling_out(serving):
    """Whether the server writes several replies at this moment."""
    running = next(
        line
        for line in serving.get("/metrics").text.splitlines()
        if line.startswith("vllm:num_requests_running")
    )
    return float(running.split()[-1]) > 2


@pytest.fixture(scope="module")
def whole(serving, tmp_path_factory):
    """The run of one process whose server lives."""
    out = tmp_path_factory.mktemp("whole") / "run"
    ragen(*arguments(out, serving.url))
    return iterations(out)


def test_a_server_that_is_killed_in_an_iteration_and_comes_back(whole, serving, tmp_path):
    """With two processes of a trainer, which both lack its weights then."""
    cut, said = tmp_path / "cut", tmp_path / "said"
    command = torchrun([*RAGEN, *map(str, arguments(cut, serving.url))])
    with said.open("w") as file:
        run = subprocess.Popen(command, stderr=file, env=two_processes_environment())
    try:
        while not (len(iterations(cut)) == 1 and is_rolling_out(serving)):
            assert run.poll() is None, said.read_text()[-3000:]
            time.sleep(0.02)
        serving.kill()
        serving.start()
        assert run.wait(600) == 0, said.read_text()[-3000:]
    finally:
        run.terminate()
        run.wait(60)
    assert len(iterations(cut)) == 2
    assert "/inference/v1/generate: " in said.read_text()
    for mine, theirs in zip(iterations(cut), whole, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-5)


def iterations(folder):
    """The metrics without what depends on the clock."""
    path = folder / "metrics.jsonl"
    return [
        {name: value for name, value in line.items() if isinstance(value, float | int)
         and not name.startswith(("seconds/", "mismatch"))}
        for line in (lines(path) if path.exists() else [])
    ]  # fmt: skip


def test_an_endpoint_gives_the_results_of_the_model_in_this_process(serving, engine, tmp_path):
    """The fixture `engine` has given the server the starter's own weights."""
    (tmp_path.parent / "suite.yaml").write_text(SUITE)
    out = tmp_path.parent / "endpoint"
    ragen(
        "bench", "--suite", tmp_path.parent / "suite.yaml", "--episodes", 12, "--out", out, "--agent",
        "starter", "--agent", "openai:starter", "--base-url", f"{serving.url}/v1",
    )  # fmt: skip
    found = {"starter": {}, "openai:starter": {}}
    for episode in lines(out / "episodes.jsonl"):
        for turn in episode["turns"]:
            del turn["seconds"]
        agent = episode.pop("agent")
        found[agent][episode["task"], episode["instance"]["index"]] = episode
    assert len(found["starter"]) == 24
    assert found["openai:starter"] == found["starter"]
    ragen("verify", out)
