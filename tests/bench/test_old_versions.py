"""Results of an older suite version: runs are refused, published entries are kept without a rank."""

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from entries import LEVELS, SMALL, change, read, small_copy, write
from ragen_bench.__main__ import main
from ragen_bench.leaderboard import entry

from ragen_agents.rollout import Episode
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


# --- entries -------------------------------------------------------------------------------------


def as_old(folder):
    """Make an entry one of the older version."""
    episodes = read(folder)
    for episode in episodes:
        assert Episode.model_validate(episode).agent == folder.name
        episode["suite_version"] = OLD
    write(folder, episodes)
    change(folder, lambda entry: entry["config"].update(suite_version=OLD))
    return folder


@pytest.fixture(scope="module")
def old_entries(tmp_path_factory):
    """The oracle of the present version, and the random control of the older one."""
    root = tmp_path_factory.mktemp("old") / "leaderboards"
    small_copy("oracle", root)
    as_old(small_copy("random", root))
    return root


@pytest.fixture
def entries(old_entries, tmp_path, monkeypatch):
    root = Path(shutil.copytree(old_entries, tmp_path / "leaderboards"))
    described = json.loads((root / "random" / "entry.json").read_text())
    monkeypatch.setattr(LEVELS, SMALL)
    monkeypatch.setattr(entry, "PUBLISHED", frozenset({described["episodes_sha256"]}))
    return root


def test_published_entries_are_checked_as_far_as_they_can_be(entries, capsys):
    assert main(["leaderboard", "check", str(entries / "random")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("OLD")
    assert line.endswith(f"of suite version {OLD}, not replayed")
    first = next(iter(json.loads((entries / "random" / "entry.json").read_text())["results"]))
    change(entries / "random", lambda entry: entry["results"][first].update(solved=1, success=1.0))
    assert main(["leaderboard", "check", str(entries / "random")]) == 1
    assert f"results.{first}." in capsys.readouterr().err


def test_what_was_not_published_then_is_refused(entries, monkeypatch, capsys):
    monkeypatch.setattr(entry, "PUBLISHED", frozenset())
    assert main(["leaderboard", "check", str(entries / "random")]) == 1
    assert "new entries must be of suite version" in capsys.readouterr().err


def test_an_old_entry_is_not_explained(entries, fails):
    assert f"an entry of suite version {OLD}, which cannot be replayed" in fails(
        "explain", entries / "random"
    )


def test_the_site_names_them_and_ranks_the_others(entries, tmp_path):
    out = tmp_path / "site"
    arguments = ["--entries", str(entries), "--results", str(tmp_path), "--out", str(out)]
    assert main(["leaderboard", "build", *arguments]) == 0
    index = (out / "index.html").read_text()
    assert "those of older suite versions: Random." in index
    assert "entries/random.html" not in index
    assert set(pd.read_csv(out / "data" / "overall.csv")["entry"]) == {"oracle"}
    games = pd.read_csv(out / "data" / "games.csv").set_index("game")["n"]
    overall = pd.read_csv(out / "data" / "overall.csv")["n"].item()
    assert overall == games.sum() - games["BanditRev"] - games["BanditTrap"]
    assert "without the controls BanditRev and BanditTrap" in index
    assert "A control of Bandit" in (out / "games" / "BanditTrap.html").read_text()
    assert "A control of" not in (out / "games" / "Bandit.html").read_text()
