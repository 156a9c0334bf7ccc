"""`ragen submit`: a run becomes an entry, and nothing that is private is published."""

import hashlib
import html
import json
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest
import yaml
from entries import LEVELS, SMALL, change, read, small_copy, unpack
from interrupted_runs import cut
from ragen_bench.__main__ import main
from ragen_bench.config.run_config import RunConfig
from ragen_bench.leaderboard import submission
from ragen_bench.leaderboard.submission import published_settings

from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_envs.errors import RagenError

ABOUT = {
    "name": "chance", "title": "Chance", "model": "none", "authors": "A. Person",
    "description": "Dice.", "contamination": "None.", "trained_on": ["Sokoban"],
    "links": {"code": "https://example.org/code?a=1#b"},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def few_levels():
    """Let entries have few levels, which are quick to replay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LEVELS, SMALL)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["bench", "--agent", "random", "--episodes", str(SMALL), "--out", str(out)]) == 0
    return out


def about(folder, **changes):
    path = folder / "about.yaml"
    path.write_text(yaml.safe_dump({**ABOUT, **changes}))
    return str(path)


def test_a_run_becomes_an_entry_and_keeps_its_words(run, tmp_path, capsys):
    entries = tmp_path / "entries"
    said = {"parameters": 12, "open_weights": True, "date": date(2026, 11, 24), "cost": 1.5}
    words = about(tmp_path, name="random", trained_on=[], **said)
    capsys.readouterr()
    assert main(["submit", str(run), "--about", words, "--entries", str(entries)]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == str(entries / "random")
    assert f"ragen leaderboard build --entries {entries}" in shown.err
    assert sorted(path.name for path in entries.iterdir()) == ["random"]
    first = (entries / "random" / "entry.json").read_bytes()
    shown = json.loads(first)
    assert shown["config"]["suite"]["episodes"] == SMALL
    assert sum(r["episodes"] for r in shown["results"].values()) == SMALL * 9
    assert {**shown["about"], **said, "date": "2026-11-24"} == shown["about"]
    assert str(run) not in first.decode()
    assert main(["submit", f"{run}:random", "--entries", str(entries)]) == 2
    assert "already exists; --replace replaces it" in capsys.readouterr().err
    assert main(["submit", f"{run}:random", "--entries", str(entries), "--replace"]) == 0
    assert (entries / "random" / "entry.json").read_bytes() == first


def test_an_entry_keeps_the_curves_of_its_training(run, tmp_path):
    entries, trained = tmp_path / "entries", tmp_path / "trained"
    trained.mkdir()
    lines = [{"iteration": 0, "validation/success": 0.25}]
    lines += [{"iteration": k, "success": k / 8} for k in (1, 2, 3)]
    lines += [{"iteration": 4, "success": 0.5, "validation/success": 0.75}]
    (trained / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = about(tmp_path, name="random", trained_on=[])
    arguments = ["submit", f"{run}:random", "--entries", str(entries)]
    assert main([*arguments, "--about", words, "--training", str(trained)]) == 0
    told = json.loads((entries / "random" / "entry.json").read_text())["training"]
    assert told["success"] == [0.125, 0.25, 0.375, 0.5]
    assert told["validation"] == [
        {"iteration": 0, "success": 0.25},
        {"iteration": 4, "success": 0.75},
    ]
    assert main([*arguments, "--replace"]) == 0
    assert json.loads((entries / "random" / "entry.json").read_text())["training"] == told
    built = ["--results", str(tmp_path), "--out", str(tmp_path / "site")]
    assert main(["leaderboard", "build", "--entries", str(entries), *built]) == 0
    page = (tmp_path / "site" / "entries" / "random.html").read_text()
    assert "validation levels, iteration 4: 75.0%" in page
    assert main([*arguments, "--replace", "--training", str(run)]) == 2


def test_curves_are_kept_by_the_entrys_name_and_not_the_agents(run, tmp_path, monkeypatch):
    entries, kept = tmp_path / "entries", []
    monkeypatch.setattr(submission, "submit", lambda *given: kept.append(given[2]) or tmp_path)
    change(small_copy("starter", entries), lambda entry: entry.update(training={"success": [0.5, 0.5]}))
    words = about(tmp_path, name="starter", trained_on=[])
    arguments = ["--about", words, "--entries", str(entries), "--replace"]
    assert main(["submit", f"{run}:random", *arguments]) == 0
    assert kept[0] is not None


def test_what_cannot_be_submitted_is_named(run, tmp_path, capsys):
    def fails(*arguments):
        capsys.readouterr()
        assert main(["submit", *arguments, "--entries", str(tmp_path / "entries")]) == 2
        assert not (tmp_path / "entries").exists()
        return capsys.readouterr().err

    assert "'random' played" in fails(str(run), "--about", about(tmp_path))
    assert "--about" in fails(str(run))
    assert "unknown option 'tilte'" in fails(str(run), "--about", about(tmp_path, tilte="x"))
    assert "links" in fails(str(run), "--about", about(tmp_path, links={"x": "javascript:alert(1)"}))
    missing = str(tmp_path / "nothere.yaml")
    assert f"there is no file '{missing}'" in fails(str(run), "--about", missing)
    assert (
        "name: use lower-case letters, digits and dashes, at most 48, no dash first or last, but is 'My "
        "Model'"
    ) in fails(str(run), "--about", about(tmp_path, name="My Model"))
    (tmp_path / "short.yaml").write_text("name: chance\ntitle: Chance\n")
    assert "model, authors, description, contamination: Field required" in fails(
        str(run), "--about", str(tmp_path / "short.yaml")
    )
    (tmp_path / "short.yaml").write_text("name: chance\ntitel: Chance\n")
    assert "unknown option 'titel'" in fails(str(run), "--about", str(tmp_path / "short.yaml"))
    assert "unknown agent 'hero'" in fails(f"{run}:hero", "--about", about(tmp_path))


def renamed(run, folder, agent):
    """Turn a run of a control into one that another agent could have made."""
    out = Path(shutil.copytree(run, folder / "renamed"))
    config = yaml.safe_load((out / "config.yaml").read_text())
    del config["digest"]
    config["agents"] = [agent]
    whole = RunConfig.model_validate(config)
    data = {**whole.model_dump(mode="json"), "digest": whole.digest}
    (out / "config.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    change_episodes(out, lambda episode: episode.update(agent=agent["name"]))
    return out


def change_episodes(run, how):
    """Change the episodes of a run, and their checksums with them."""
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for episode in episodes:
        how(episode)
    lines = [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in episodes]
    (run / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    sums = [hashlib.sha256(line.encode()).hexdigest() for line in lines]
    (run / "episodes.sha256").write_text("".join(f"{checksum}\n" for checksum in sums))


def test_a_python_agent_counts_its_own_tokens(run, tmp_path):
    own = renamed(run, tmp_path, {"name": "mine:Agent", "weights": "0" * 64})
    change_episodes(own, lambda e: [turn.update(reply_tokens=5000) for turn in e["turns"]])
    entries = tmp_path / "entries"
    assert main(["submit", str(own), "--about", about(tmp_path), "--entries", str(entries)]) == 0


def test_an_entry_names_all_versions_that_played_it(run, tmp_path):
    upgraded = Path(shutil.copytree(run, tmp_path / "upgraded"))
    path = upgraded / "environment.json"
    now = json.loads(path.read_text())
    del now["digest"]
    before = {**now, "packages": {**now["packages"], "numpy": "1.0"}, "continued_with": [now]}
    path.write_text(json.dumps(before))
    words = about(tmp_path, name="random", trained_on=[])
    entries = tmp_path / "entries"
    assert main(["submit", str(upgraded), "--about", words, "--entries", str(entries)]) == 0
    packages = json.loads((entries / "random" / "entry.json").read_text())["packages"]
    numpy = f"1.0, {now['packages']['numpy']}"
    assert packages == {**now["packages"], "python": now["python"], "numpy": numpy}


def test_messages_of_errors_are_not_published(run, tmp_path, monkeypatch):
    monkeypatch.setattr("ragen_bench.leaderboard.check.MAX_ERRORS", 0.2)

    def fail(episode):
        if episode["instance"]["index"] == 0:
            episode.update(turns=[], success=False, episode_return=0.0, closing="", end="error")
            episode["error"] = errors[episode["task"] == "Bandit"]

    errors = ("FileNotFoundError: '/home/ann/key' of ann@10.9.8.7", "/home/ann: gone")
    failed = renamed(run, tmp_path, {"name": "mine:Agent", "weights": "0" * 64})
    change_episodes(failed, fail)
    entries = tmp_path / "entries"
    assert main(["submit", str(failed), "--about", about(tmp_path), "--entries", str(entries)]) == 0
    assert b"/home" not in unpack(entries / "chance")
    said = {episode["error"] for episode in read(entries / "chance")}
    assert said == {None, "FileNotFoundError", "Exception"}


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("episodes.jsonl", lambda text: text.replace("random</think>", "rndom</think>", 1)),
        ("episodes.sha256", lambda text: text + text[:65]),
    ],
)
def test_a_run_that_was_changed_cannot_be_submitted(run, tmp_path, fails, file, how):
    changed = Path(shutil.copytree(run, tmp_path / "changed"))
    (changed / file).write_text(how((changed / file).read_text()))
    words = about(tmp_path, name="random", trained_on=[])
    entries = tmp_path / "entries"
    error = fails("submit", changed, "--about", words, "--entries", entries)
    assert f"{changed}/episodes.jsonl line " in error
    assert "was changed" in error
    assert not entries.exists()


def test_an_entry_that_is_in_the_way_is_named(run, tmp_path, fails):
    other = tmp_path / "entries" / "other"
    other.mkdir(parents=True)
    (other / "entry.json").write_text("{")
    command = ["submit", run, "--about", about(tmp_path, name="random", trained_on=[])]
    assert f"the existing entry '{other}'" in fails(*command, "--entries", other.parent)


def test_replies_of_another_entry_cannot_be_submitted(run, tmp_path, fails):
    small_copy("random", tmp_path / "entries")
    copied = renamed(run, tmp_path, {"name": "mine:Agent", "weights": "0" * 64})
    command = ["submit", copied, "--about", about(tmp_path), "--entries", tmp_path / "entries"]
    assert "the replies of 'chance' are those of 'random'" in fails(*command)


def test_an_unfinished_run_cannot_be_submitted(run, tmp_path, capsys):
    part = Path(shutil.copytree(run, tmp_path / "part"))
    lines = (part / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    cut(part, len(b"".join(lines[:-3])))
    words = about(tmp_path, name="random", trained_on=[])
    entries = tmp_path / "entries"
    assert main(["submit", str(part), "--about", words, "--entries", str(entries)]) == 2
    assert f"3 of {SMALL * 9} episodes are missing" in capsys.readouterr().err
    assert not entries.exists()


def behind_an_endpoint(run, folder, **endpoint):
    """Turn a run of a control into one that a model behind an endpoint could have made."""
    return str(renamed(run, folder, {"name": "openai:m", "weights": None, "endpoint": endpoint}))


def test_an_entry_says_what_an_endpoint_was_asked(run, tmp_path):
    settings = {"stop": ["\n", "it's"], "tools": True}
    settings["extra_body"] = {"temperature": 2.0, "note": "</code>'"}
    hosted = behind_an_endpoint(run, tmp_path, base_url="http://10.9.8.7/v1", **settings)
    entries, site = tmp_path / "entries", tmp_path / "site"
    submitted = ["submit", hosted, "--about", about(tmp_path), "--entries", str(entries)]
    assert main(submitted) == 0
    text = (entries / "chance" / "entry.json").read_text()
    assert "base_url" not in text
    assert json.loads(text)["config"]["agents"][0]["endpoint"] == settings
    built = ["--entries", str(entries), "--results", str(tmp_path), "--out", str(site)]
    assert main(["leaderboard", "build", *built]) == 0
    page = html.unescape((site / "entries" / "chance.html").read_text())
    assert 'seed 0, stop ["\\n", "it\'s"], every request merged with {"temperature": 2.0' in page
    assert "acts by tool calls</dd>" in page
    command = page[page.index("ragen bench --agent") :].partition("</code></dd>")[0]
    said = subprocess.run(["bash", "-c", rf"printf '%s\0' {command}"], capture_output=True, text=True)
    words = said.stdout.split("\0")[:-1]
    assert words[3:6] == ["openai:MODEL", "--base-url", "URL"]
    assert words[-7:-3] == ["--stop", "\n", "--stop", "it's"]
    assert json.loads(words[-2]) == settings["extra_body"]
    assert words[-1] == "--tools"


def test_an_entry_says_at_what_texts_a_local_model_ends(run, tmp_path, capsys):
    agent = {"name": "mine", "weights": "0" * 64, "stop": ["</answer>"]}
    stopped, entries, site = renamed(run, tmp_path, agent), tmp_path / "entries", tmp_path / "site"
    assert main(["show", str(stopped)]) == 0
    assert "note: replies of mine end at '</answer>'" in capsys.readouterr().out
    options = ["--about", about(tmp_path), "--entries", str(entries)]
    assert main(["submit", str(stopped), *options]) == 0
    built = ["--entries", str(entries), "--results", str(tmp_path), "--out", str(site)]
    assert main(["leaderboard", "build", *built]) == 0
    page = html.unescape((site / "entries" / "chance.html").read_text())
    assert 'seed 0, stop ["</answer>"]</dd>' in page
    assert "ragen bench --agent MODEL --episodes" in page
    assert "--stop '</answer>'</code>" in page


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *((name, True) for name in (
            "hf_token", "token", "bearer", "x-api-token", "passwd", "pwd", "private_key", "apiKey",
            "signature", "subscription-key", "auth", "Authorization", "key",
        )),
        *((name, False) for name in (
            "authors", "max_tokens", "add_bos_token", "eos_token", "prompt_cache_key", "stop_token_ids",
        )),
    ],
)  # fmt: skip
def test_fields_named_like_secrets_are_told_from_others(name, is_secret):
    endpoint = EndpointSettings(base_url="https://a.org/v1", extra_body={"x": [{name: "y"}]})
    if not is_secret:
        assert published_settings(endpoint).extra_body == endpoint.extra_body
        return
    with pytest.raises(RagenError, match=f"extra_body has the field '{name}'"):
        published_settings(endpoint)


def test_a_secret_is_not_published(run, tmp_path, fails):
    body = {"data_sources": [{"parameters": {"authentication": {"key": "sk-1"}}}]}
    hosted = behind_an_endpoint(run, tmp_path, extra_body=body)
    entries = tmp_path / "entries"
    found = fails("submit", hosted, "--about", about(tmp_path), "--entries", entries)
    assert "extra_body has the field 'authentication'" in found
    assert not entries.exists()
