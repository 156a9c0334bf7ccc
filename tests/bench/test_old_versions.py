"""Results of an older suite version: shown and marked, never replayed, resumed or ranked with others."""

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from entries import change, copy_of, read, write
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import load_config
from ragen_bench.config.suite_versions import RELEASES
from ragen_bench.leaderboard import rules

from ragen_agents.rollout import Episode
from ragen_envs import SUITE_VERSION

OLD = SUITE_VERSION - 1
BENCH = ("bench", "--agent", "random", "--agent", "noop", "--game", "Bandit", "--episodes", "8")
ABOUT = {
    "name": "random", "title": "Random", "model": "none", "authors": "A. Person",
    "description": "Dice.", "contamination": "None.",
}  # fmt: skip


def age_episodes(path):
    episodes = [json.loads(line) for line in path.read_text().splitlines()]
    for episode in episodes:
        episode["suite_version"] = OLD
    path.write_text("".join(f"{json.dumps(episode)}\n" for episode in episodes))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the older version, whose config lacks a setting that came later."""
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main([*BENCH, "--out", str(out)]) == 0
    path = out / "config.yaml"
    data = yaml.safe_load(path.read_text())
    del data["digest"], data["suite"]["description"]
    data["suite_version"] = OLD
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    path.write_text(yaml.safe_dump({**data, "digest": digest}))
    age_episodes(out / "episodes.jsonl")
    return out


def test_every_older_version_has_a_release():
    assert set(RELEASES) >= set(range(1, SUITE_VERSION))


def test_a_run_is_shown_and_marked(run, capsys):
    assert main(["show", str(run), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {row["agent"] for row in shown["rows"]} == {"random", "noop"}
    assert shown["notes"][0] == (
        f"suite version {OLD}: levels, prompts and scores are not comparable with suite version "
        f"{SUITE_VERSION}"
    )


def test_a_run_is_compared_within_its_version_alone(run, tmp_path, fails, capsys):
    assert main(["compare", f"{run}:random", ":noop"]) == 0
    present = tmp_path / "present"
    assert main([*BENCH, "--out", str(present)]) == 0
    assert "not comparable" in fails("compare", f"{run}:random", f"{present}:random")


def test_a_run_is_no_row_of_a_table_of_the_present_version(run, tmp_path, fails):
    arguments = ["reproduce", "figure5", "--no-run", "--out", tmp_path / "out", "--beside", run]
    assert f"a run of suite version {OLD}, which cannot be compared" in fails(*arguments)


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_a_run_is_neither_replayed_nor_resumed(run, command, fails):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    arguments = ["verify", run] if command == "verify" else [*BENCH, "--out", run]
    assert f"only release {RELEASES[OLD]} of the package" in fails(*arguments)
    assert before == {path.name: path.read_bytes() for path in run.iterdir()}


def test_a_run_that_was_edited_is_refused(run, tmp_path, fails):
    edited = Path(shutil.copytree(run, tmp_path / "edited"))
    path = edited / "config.yaml"
    path.write_text(path.read_text().replace("temperature: 0.5", "temperature: 0.7"))
    assert "was edited" in fails("show", edited)
    with pytest.raises(Exception, match="was edited"):
        load_config(edited)


def test_a_run_cannot_become_an_entry(run, tmp_path, fails):
    about = tmp_path / "about.yaml"
    about.write_text(yaml.safe_dump(ABOUT))
    entries = tmp_path / "entries"
    arguments = ["submit", f"{run}:random", "--about", about, "--entries", entries]
    assert f"suite version {OLD}" in fails(*arguments)
    assert not entries.exists()


# --- entries -------------------------------------------------------------------------------------


def as_old(folder):
    """Make an entry one of the older version, under another name."""
    episodes = read(folder)
    for episode in episodes:
        assert Episode.model_validate(episode).agent == folder.name
        episode["suite_version"] = OLD
    write(folder, episodes)
    change(folder, lambda entry: entry["config"].update(suite_version=OLD))
    return folder


@pytest.fixture
def entries(tmp_path, monkeypatch):
    """The oracle of the present version, and the random and the noop control of the older one."""
    root = tmp_path / "leaderboards"
    copy_of("oracle", root)
    old = [as_old(copy_of(name, root)) for name in ("random", "noop")]
    hashes = [json.loads((e / "entry.json").read_text())["episodes_sha256"] for e in old]
    monkeypatch.setitem(rules.PUBLISHED, OLD, frozenset(hashes))
    return root


def test_entries_are_checked_as_far_as_they_can_be(entries, capsys):
    assert main(["leaderboard", "check", "--entries", str(entries)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["OLD", "OK", "OLD"]
    assert lines[0].endswith(f"of suite version {OLD}, not replayed")
    first = next(iter(json.loads((entries / "random" / "entry.json").read_text())["results"]))
    change(entries / "random", lambda entry: entry["results"][first].update(solved=1, success=1.0))
    assert main(["leaderboard", "check", "--entries", str(entries)]) == 1
    assert f"results.{first}." in capsys.readouterr().err


def test_what_was_not_published_then_is_refused(entries, monkeypatch, capsys):
    monkeypatch.setitem(rules.PUBLISHED, OLD, frozenset())
    assert main(["leaderboard", "check", str(entries / "random")]) == 1
    assert "new entries must be of the current suite version" in capsys.readouterr().err


def test_verify_names_the_release_that_plays_an_entry(entries, fails):
    assert f"only release {RELEASES[OLD]} of the package" in fails("verify", entries / "random")
    assert "ragen leaderboard check" in fails("verify", entries / "oracle")


@pytest.mark.parametrize("present", [True, False])
def test_the_site_has_a_table_of_their_own(entries, present, tmp_path):
    if not present:
        shutil.rmtree(entries / "oracle")
    out = tmp_path / "site"
    arguments = ["--entries", str(entries), "--results", str(tmp_path), "--out", str(out)]
    assert main(["leaderboard", "build", *arguments]) == 0
    index = (out / "index.html").read_text()
    above, below = index.split(f"Suite version {OLD}</h2>")
    assert f"not comparable with version {SUITE_VERSION}" in below
    assert ("entries/oracle.html" in above) == present
    assert "entries/oracle.html" not in below
    for name in ("random", "noop"):
        assert f"entries/{name}.html" not in above
        assert f"entries/{name}.html" in below
        assert f"Suite version {OLD}:" in (out / "entries" / f"{name}.html").read_text()
        assert not (out / "episodes" / name).exists()
    table = pd.read_csv(out / "data" / f"version-{OLD}.csv")
    assert set(table["entry"]) == {"random", "noop"}
    assert set(pd.read_csv(out / "data" / "overall.csv")["entry"]) == (
        {"oracle"} if present else set()
    )


def test_controls_of_a_game_are_no_part_of_the_first_table(entries, tmp_path):
    out = tmp_path / "site"
    arguments = ["--entries", str(entries), "--results", str(tmp_path), "--out", str(out)]
    assert main(["leaderboard", "build", *arguments]) == 0
    games = pd.read_csv(out / "data" / "games.csv").set_index("game")["n"]
    overall = pd.read_csv(out / "data" / "overall.csv")["n"].item()
    assert overall == games.sum() - games["BanditRev"] - games["BanditTrap"]
    index = (out / "index.html").read_text()
    assert "without the controls BanditRev and BanditTrap" in index
    assert "BanditRev and BanditTrap: the prompts are those of Bandit" in index
    assert "A control of Bandit" in (out / "games" / "BanditTrap.html").read_text()
    assert "A control of" not in (out / "games" / "Bandit.html").read_text()
