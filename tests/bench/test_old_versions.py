"""Runs of an older suite version are refused."""

import hashlib
import json

import pytest
import yaml
from ragen_bench.__main__ import main

from ragen_envs import SUITE_VERSION

OLD = SUITE_VERSION - 1
BENCH = ("bench", "--agent", "random", "--agent", "noop", "--game", "Bandit", "--episodes", "2")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main([*BENCH, "--out", str(out)]) == 0
    path = out / "config.yaml"
    data = yaml.safe_load(path.read_text())
    del data["digest"]
    data["suite_version"] = OLD
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    path.write_text(yaml.safe_dump({**data, "digest": digest}))
    return out


@pytest.mark.parametrize("command", ["show", "verify", "explain", "bench"])
def test_a_run_is_refused_in_a_line(run, command, fails):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    arguments = [*BENCH, "--out", run] if command == "bench" else [command, run]
    assert f"is a run of suite version {OLD}, but this is suite version {SUITE_VERSION}" in fails(*arguments)
    assert before == {path.name: path.read_bytes() for path in run.iterdir()}
