"""A campaign of faults: whatever happens to a command, running it again ends as if nothing had.

By default a few sequences of each program; ``make faults`` draws a thousand, and docs/reliability.md has
what they showed.
"""

import json
import os
import resource
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
import yaml
from endpoint_server import FAULTS, EndpointServer
from fault_injection import CRASHED, KINDS, SIGNALS, Calm, run, sequences
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ragen_bench.__main__ import main
from ragen_bench.evaluation.run_table import read_run, summarise

pytestmark = [
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux"),
    pytest.mark.xdist_group("others"),
]

SEQUENCES = int(os.environ.get("FAULT_SEQUENCES", "6"))
"""Over all programs; the shares are below."""
CODES = {0, 1, 2, 130, 143, CRASHED, *(-getattr(signal, name) for name in SIGNALS)}
KEY = "sk-not-to-be-found-5f1c"


def campaign(share):
    phases = (Phase.generate, Phase.shrink)
    return settings(
        max_examples=max(1, round(share * SEQUENCES)),
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        derandomize=SEQUENCES <= 12,
    )


def timeless(found):
    """A record without what depends on the clock."""
    if isinstance(found, dict):
        return {k: timeless(v) for k, v in found.items() if k != "seconds" and not k.startswith("seconds/")}
    return [timeless(each) for each in found] if isinstance(found, list) else found


def records(path):
    lines = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))


def left_by_bench(out):
    """The episodes of a run and its table."""
    table = summarise(read_run(out)).drop(columns="seconds")
    return records(out / "episodes.jsonl"), table.to_json()


def whole_lines(out, pattern="*.jsonl"):
    """What each file that grows holds in whole lines."""
    found = {}
    for path in sorted(out.rglob(pattern)):
        data = path.read_bytes()
        found[path] = data[: data.rfind(b"\n") + 1]
    return found


def lost(before, out):
    """Lines without an error that were there before and are not any more."""
    there = b"".join(whole_lines(out).values())
    return [line for data in before.values() for line in data.splitlines()
            if line not in there and b'"error":null' in line]  # fmt: skip


def endure(calm, folder, faults, keeps=True):
    """Start a command once for each fault, then without; check each end, and that it keeps what it had."""
    out = folder / "run"
    for fault in faults:
        before = whole_lines(out)
        ended, _ = run(calm.words(out), folder, fault, calm.usual)
        assert ended.code in CODES, ended
        assert "Traceback" not in ended.said, ended.said
        if keeps and fault.kind != "power loss":
            assert lost(before, out) == [], fault
    ended, _ = run(calm.words(out), folder)
    assert ended.code == 0, ended.said
    assert "Traceback" not in ended.said


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder that each sequence begins with empty."""
    folder = tmp_path_factory.mktemp("faults")

    def empty():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    return empty


# --- benchmarks ----------------------------------------------------------------------------------


def bench_words(out, *more):
    games = ("--game", "Bandit", "--game", "FrozenLakeDeterministic")
    agents = ("--agent", "random", "--agent", "oracle")
    return ["bench", *agents, *games, "--episodes", "34", "--out", str(out), *more]


@pytest.fixture(scope="module")
def calm_bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    ended, usual = run(bench_words(folder / "run"), folder)
    assert ended.code == 0, ended.said
    return Calm(bench_words, left_by_bench(folder / "run"), usual)


@campaign(0.2)
@given(faults=sequences())
def test_a_benchmark_survives(faults, calm_bench, place):
    folder = place()
    endure(calm_bench, folder, faults)
    assert left_by_bench(folder / "run") == calm_bench.left
    assert main(["verify", str(folder / "run")]) == 0


# --- endpoints -----------------------------------------------------------------------------------

CONCURRENCY, ANSWER = 3, 320
"""Requests in flight, and the tokens of each of the server's answers."""


def endpoint_words(server, out, *more, timeout="0.5s"):
    return ["bench", "--agent", "openai:m", "--base-url", server.url, "--api-key-env", "FAULT_KEY",
            "--game", "Bandit", "--game", "FrozenLakeDeterministic", "--episodes", "4",
            "--max-retries", "1", "--timeout", timeout, "--concurrency", str(CONCURRENCY),
            "--out", str(out), *more]  # fmt: skip


PASSING = tuple(fault for fault in FAULTS if fault != "no_choices")
"""An answer without choices is one that a content filter withheld: an empty reply, which counts."""


@pytest.fixture(scope="module")
def calm_endpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    with EndpointServer() as server:
        ended, usual = run(endpoint_words(server, folder / "run"), folder, FAULT_KEY=KEY)
        assert ended.code == 0, ended.said
        asked = len(server.bodies)
    return Calm(endpoint_words, (*left_by_bench(folder / "run"), asked), usual)


def spent(out):
    """How many answers the run has counted."""
    path = out / "usage.jsonl"
    lines = [json.loads(line) for line in whole_lines(out, "usage.jsonl").get(path, b"").splitlines()]
    assert all(line["prompt_tokens"] + line["reply_tokens"] == ANSWER for line in lines)
    return len(lines)


starts = st.tuples(
    sequences((*KINDS, "none")),
    st.lists(st.none() | st.floats(0, 1.2), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
"""Machine faults, budgets of tokens as shares of what the run takes, and whether the server has moved."""


@campaign(0.62)
@pytest.mark.xdist_group("endpoint")
@given(
    starts=starts,
    share=st.floats(0, 0.6),
    kinds=st.lists(st.sampled_from(PASSING), min_size=1, max_size=4),
    seed=st.integers(0, 1 << 16),
)
def test_a_benchmark_of_an_endpoint_survives(starts, share, kinds, seed, calm_endpoint, place):
    folder = place()
    out = folder / "run"
    *calm, asked = calm_endpoint.left
    broken = late = 0
    with (
        EndpointServer(faults=share, kinds=kinds, seed=seed) as first,
        EndpointServer(faults=share, kinds=kinds, seed=seed + 1) as second,
    ):
        for fault, budget, moved in [*zip(*starts, strict=False), (None, None, False)]:
            before, had = whole_lines(out), spent(out)
            timeout = "60s" if fault is None else "0.5s"  # without faults, nothing may fail
            words = endpoint_words(second if moved else first, out, timeout=timeout)
            words += ["--retry-errors"] if out.is_dir() else []
            limit = None if budget is None else 1 + int(budget * asked)
            words += [] if limit is None else ["--token-limit", str(limit * ANSWER)]
            if fault is None:
                first.faults = 0.0
            ended, _ = run(words, folder, fault, calm_endpoint.usual, FAULT_KEY=KEY)
            assert ended.code in ({0} if fault is None else CODES | {3}), ended
            assert "Traceback" not in ended.said, ended.said
            broken += ended.code not in (0, 3)
            late += ended.said.count("no answer in")
            if fault is None or fault.kind != "power loss":
                assert lost(before, out) == []
            if limit is not None:
                # A request may be answered twice by what is no reply, and its probe thrice.
                each = 5 if "wrong_types" in kinds else 1
                assert spent(out) <= max(had, limit - 1 + CONCURRENCY * each)
    assert left_by_bench(out) == tuple(calm)
    assert main(["verify", str(out)]) == 0
    paid = Counter(json.dumps(body) for body in first.answered + second.answered)
    useless = (first.hit + second.hit).count("wrong_types")
    late += sum(path.read_text().count("no answer in") for path in out.glob("*.jsonl"))
    # Of what is in flight when a process ends, and of what comes too late, a run knows nothing.
    unknown = CONCURRENCY * broken + late
    assert 0 <= paid.total() + useless - spent(out) <= unknown
    again = sum(count - 1 for body, count in paid.items() if '"Hello"' not in body)
    assert again <= unknown
    assert not any(KEY.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


# --- matches -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calm_match(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    task = {"FrozenLakeRace": {"env": "ragen/frozen_lake_race_text-v0"}}
    suite = folder / "race.yaml"
    suite.write_text(yaml.safe_dump({"name": "race", "version": 1, "tasks": task}))

    def words(out):
        return ["match", "--suite", str(suite), "--agent", "random", "--agent", "noop",
                "--episodes", "6", "--out", str(out)]  # fmt: skip

    ended, usual = run(words(folder / "run"), folder)
    assert ended.code == 0, ended.said
    return Calm(words, records(folder / "run/episodes.jsonl"), usual)


@campaign(0.11)
@given(faults=sequences())
def test_a_match_survives(faults, calm_match, place):
    folder = place()
    endure(calm_match, folder, faults)
    assert records(folder / "run/episodes.jsonl") == calm_match.left
    assert main(["verify", str(folder / "run")]) == 0


# --- training ------------------------------------------------------------------------------------


def train_words(tiny, out):
    return ["train", "bandit", "--out", str(out), f"model={tiny}", "iterations=3", "save_every=1",
            "rollout.prompts_per_iteration=2", "rollout.group_size=2", "rollout.max_tokens=8",
            "update.mini_batch_size=4", "evaluation.every=0", "filter.kind=none"]  # fmt: skip


@pytest.fixture(scope="module")
def calm_training(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    ended, usual = run(train_words(tiny, folder / "run"), folder)
    assert ended.code == 0, ended.said
    return Calm(lambda out: train_words(tiny, out), left_by(folder / "run"), usual)


def left_by(out):
    metrics = [timeless(json.loads(line)) for line in (out / "metrics.jsonl").read_text().splitlines()]
    last = out / "checkpoints/000003"
    weights = [(last / name).read_bytes() for name in ("model.safetensors", "trainer.safetensors")]
    return metrics, weights


# Half a checkpoint fills the limit of "no space" long before an iteration ends, which tests nothing.
@campaign(0.065)
@given(faults=sequences(tuple(kind for kind in KINDS if kind != "no space")))
def test_training_survives(faults, calm_training, place):
    folder = place()
    # Iterations after the last checkpoint are played again.
    endure(calm_training, folder, faults, keeps=False)
    assert left_by(folder / "run") == calm_training.left


# --- sweeps --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calm_sweep(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({
        "name": "small", "version": 1, "description": "For tests.", "preset": "starpo-grpo",
        "train": {
            "rollout": {"prompts_per_iteration": 2, "group_size": 2, "max_tokens": 8}, "save_every": 1,
        },
        "games": {"Bandit": ["Bandit"]}, "reference": "a", "cells": {"a": {}},
        "scales": {"laptop": {"iterations": 1, "quick": 1}},
    }))  # fmt: skip

    def words(out):
        return [
            "train-sweep",
            str(path),
            "--quick",
            "--seeds",
            "1",
            "--model",
            str(tiny),
            "--out",
            str(out),
        ]

    ended, usual = run(words(folder / "run"), folder)
    assert ended.code == 0, ended.said
    return Calm(words, results_of(folder / "run"), usual)


def results_of(out):
    return {
        str(path.relative_to(out)): timeless(json.loads(path.read_text()))["outcomes"]
        for path in out.rglob("result.json")
    }


@pytest.mark.skipif(SEQUENCES < 100, reason="make faults; test_train_sweeps.py kills one")
@campaign(0.005)
@given(faults=sequences(("SIGKILL", "SIGTERM", "SIGINT", "crash", "clock")))
def test_a_sweep_survives(faults, calm_sweep, place):
    folder = place()
    endure(calm_sweep, folder, faults)
    assert calm_sweep.left
    assert results_of(folder / "run") == calm_sweep.left


def test_limits_of_a_fault_end_with_its_process():
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
