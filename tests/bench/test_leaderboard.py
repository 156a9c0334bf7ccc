"""Leaderboard entries: what was played is accepted, and nothing else that a stranger may send."""

import contextlib
import json
import lzma
import os
import shutil
from pathlib import Path

import pytest
from entries import ENTRIES, LEVELS, SMALL, as_model, change, pack, read, small_copy, unpack, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ragen_bench.__main__ import main
from ragen_bench.leaderboard import check, store
from ragen_bench.leaderboard.entry import EntryError, entry_schema
from ragen_bench.leaderboard.site import agent_options, agent_words, training_words
from ragen_bench.leaderboard.store import read_entry
from starter_build.demonstrations import SHARES

from ragen_agents.policies.endpoint.settings import EndpointSettings
from ragen_envs import SUITE_VERSION

EPISODES = 9 * SMALL
FIRST = 16
"""Levels of each game that are replayed of a published entry."""


@pytest.fixture(scope="module")
def published():
    return [read_entry(folder) for folder in store.entry_folders(ENTRIES)]


@pytest.fixture
def entry(tmp_path, monkeypatch):
    monkeypatch.setattr(LEVELS, SMALL)
    return small_copy("random", tmp_path)


@pytest.fixture
def rejected(capsys):
    def check(folder):
        capsys.readouterr()
        assert main(["leaderboard", "check", str(folder)]) == 1
        shown = capsys.readouterr()
        assert not shown.out
        assert len(shown.err.splitlines()) == 1
        assert shown.err.startswith("REJECTED ")
        assert all(sign.isprintable() for sign in shown.err.strip())
        return shown.err

    return check


# --- what is published ---------------------------------------------------------------------------


def test_entries_made_from_the_starter_were_trained_on_its_games(published):
    starter = {text_id.removeprefix("ragen/").removesuffix("Text-v0") for text_id in SHARES}
    made_from_it = 0
    for about in (stored.entry.about for stored in published):
        if about.model.startswith("starter"):
            made_from_it += 1
            assert starter <= set(about.trained_on), about.name
    assert made_from_it


@pytest.mark.parametrize(
    ("trained_on", "words"),
    [
        ([], "–"),
        (["A"], "A"),
        (["B", "A"], "B, A"),
        (["A", "C", "D"], "all but B"),
        (list("ABCD"), "all"),
    ],
)
def test_many_training_games_are_told_by_the_others(trained_on, words):
    assert training_words(trained_on, "ABCD") == words


def test_every_published_entry_plays_again_as_recorded(tmp_path, monkeypatch, capsys):
    """Its first levels; the workflow ``leaderboard`` replays all."""
    monkeypatch.setattr(LEVELS, FIRST)
    names = [folder.name for folder in store.entry_folders(ENTRIES)]
    assert {"random", "noop", "oracle"} <= set(names)
    for name in names:
        small_copy(name, tmp_path, FIRST)
    assert main(["leaderboard", "check", "--entries", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("OK ")]
    assert [Path(line.split(":")[0].removeprefix("OK ")).name for line in lines] == names


def test_every_published_entry_is_whole_and_has_the_results_of_its_episodes(published):
    for stored in published:
        assert [record.episode.key for record in stored.records] == stored.entry.config.keys
        results = check.results_of(record.episode for record in stored.records)
        for game, told in stored.entry.results.items():
            assert told.model_dump() == pytest.approx(results[game].model_dump())


def test_the_published_schema_is_that_of_the_model(capsys):
    assert (ENTRIES / "entry.schema.json").read_text() == entry_schema()
    assert main(["leaderboard", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["schema_version"]["const"] == 1


# --- files that are not what they should be --------------------------------------------------------


def test_a_folder_holds_two_files_and_nothing_else(entry, rejected):
    (entry / "notes.txt").write_text("x")
    assert "notes.txt" in rejected(entry)
    (entry / "notes.txt").rename(entry / "\x1b[2J\u202e")
    rejected(entry)


def test_links_are_not_followed(entry, rejected, tmp_path):
    for name in ("entry.json", "episodes.jsonl.xz"):
        outside = (entry / name).rename(tmp_path / name)
        (entry / name).symlink_to(outside)
        assert f"{name} is a link" in rejected(entry)
        (entry / name).unlink()
        outside.rename(entry / name)
    other = tmp_path / "other"
    other.symlink_to(entry)
    assert "not a folder" in rejected(other)


def test_pipes_and_folders_are_not_read(entry, rejected):
    (entry / "entry.json").unlink()
    os.mkfifo(entry / "entry.json")
    assert "not a regular file" in rejected(entry)
    (entry / "entry.json").unlink()
    (entry / "entry.json").mkdir()
    assert "not a regular file" in rejected(entry)


def test_huge_files_are_not_read(entry, rejected):
    with (entry / "episodes.jsonl.xz").open("r+b") as file:
        file.truncate(1 << 40)
    assert f"more than {1 << 23} bytes" in rejected(entry)
    (entry / "entry.json").write_text(" " * (1 << 19))
    assert f"more than {1 << 18} bytes" in rejected(entry)


def test_a_bomb_is_not_unpacked(entry, rejected):
    packer = lzma.LZMACompressor(preset=1)
    bomb = [packer.compress(bytes(1 << 20)) for _ in range(65)] + [packer.flush()]
    (entry / "episodes.jsonl.xz").write_bytes(b"".join(bomb))
    assert "unpacks to more than" in rejected(entry)


def test_a_dictionary_of_gigabytes_is_not_made(entry, rejected):
    chain = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    (entry / "episodes.jsonl.xz").write_bytes(
        b"\xfd7zXZ\0" + lzma.compress(b"x" * 100, filters=[{**chain[0], "dict_size": 4096}])[6:]
    )
    data = bytearray((entry / "episodes.jsonl.xz").read_bytes())
    data[12:24] = _block_header(40)
    (entry / "episodes.jsonl.xz").write_bytes(bytes(data))
    assert "Memory usage limit exceeded" in rejected(entry)


def _block_header(dictionary):
    """Return an xz block header whose LZMA2 filter wants nearly 4 GiB; liblzma would obey."""
    import zlib

    body = bytes([2, 0, 0x21, 1, dictionary, 0, 0, 0])
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda data: b"", "one whole xz stream"),
        (lambda data: b"PK\x03\x04" * 9, "not an xz file"),
        (lambda data: data[:-20], "one whole xz stream"),
        (lambda data: data + data, "one whole xz stream"),
        (lambda data: data[:200] + b"\0" + data[201:], "not an xz file"),
    ],
)
def test_broken_archives_are_named(entry, spoil, named, rejected):
    path = entry / "episodes.jsonl.xz"
    path.write_bytes(spoil(path.read_bytes()))
    assert named in rejected(entry)


def test_a_forged_hash_is_rejected(entry, rejected):
    change(entry, lambda e: e.update(episodes_sha256="0" * 64))
    assert "SHA-256" in rejected(entry)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not JSON"),
        ("[]", "must be a mapping"),
        ("{}", "about"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": -Infinity}', "not JSON"),
        ("[" * 60_000, "not JSON: recursion limit exceeded"),
        ('{"a":' * 10_000, "not JSON: recursion limit exceeded"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ('"\udcff"', "not JSON"),
    ],
)
def test_bad_json_is_named(entry, text, named, rejected):
    (entry / "entry.json").write_bytes(text.encode(errors="surrogateescape"))
    assert named in rejected(entry)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"episode_return": NaN}', "line 3 is corrupt"),
        ("{" * 10, "line 3 is corrupt"),
        ("[" * 100_000, "line 3 is corrupt"),
        ("{}", "line 3 is corrupt"),
        ('"' + "x" * (1 << 21) + '"', f"line 3 has more than {1 << 21} bytes"),
        ("0\n" * 100_000, f"{100_000 + EPISODES} episodes, but must have {EPISODES}"),
        ("", "line 3 is corrupt"),
    ],
)
def test_bad_lines_are_named(entry, line, named, rejected):
    lines = unpack(entry).splitlines()
    lines[2] = line.encode()
    pack(entry, b"\n".join(lines) + b"\n")
    assert named in rejected(entry)


# --- words and rules -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (lambda e: e.update(schema_version=2), "schema_version"),
        (lambda e: e.update(extra=1), "unknown option 'extra'"),
        (lambda e: e["about"].update(name="../evil"), "about.name"),
        (lambda e: e["about"].update(name="oracle"), "that of the folder"),
        (lambda e: e["about"].update(title="\u202egnp"), "about.title"),
        (lambda e: e["about"].update(title="a\x1b[2Jb"), "about.title"),
        (lambda e: e["about"].update(title="Or\u0430cle"), "about.title"),
        (lambda e: e["about"].update(title="a\n"), "about.title"),
        (
            lambda e: e["about"].update(title="Oracle"),
            "that of the control 'oracle'; choose another",
        ),
        (lambda e: e["about"].update(title="- ..."), "no letter or digit"),
        (lambda e: e["about"].update(trained_on=["Sokoban", "Sokoban"]), "has 'Sokoban' twice"),
        (lambda e: e["about"].update(date="2026-02-31"), "valid date"),
        (lambda e: e["about"].update(authors="two\nlines"), "U+000A"),
        (lambda e: e["about"].update(description="x" * 401), "400"),
        (lambda e: e["about"].update(links={"x": "javascript:alert(1)"}), "links"),
        (lambda e: e["about"].update(links={"x": "https://a.org/\"onload='x"}), "links"),
        (lambda e: e["about"].update(links={"x": "http://a.org"}), "links"),
        (lambda e: e["about"].update(trained_on=["Chess"]), "'Chess'"),
        (
            lambda e: e["config"].update(suite_version=SUITE_VERSION - 1),
            f"but only episodes of suite version {SUITE_VERSION} can be replayed",
        ),
        (lambda e: e["config"]["suite"].update(split="validation"), "only test levels count"),
        (lambda e: e["config"]["suite"].update(name="mine"), "'mine'"),
        (lambda e: e["config"]["suite"].update(version=9), "config.suite.version"),
        (lambda e: e["config"]["suite"].update(description="<b>"), "config.suite.description"),
        (
            lambda e: e["config"]["suite"].update(episodes=64),
            f"needs {SMALL}: play it again with --episodes {SMALL}",
        ),
        (
            lambda e: [e["config"]["suite"].update(episodes=64), e["config"]["suite"]["tasks"].pop("Cube")],
            f"of each game, but an entry needs {SMALL}, and lacks Cube, but an entry plays all games of the "
            f"suite 'core': play it again with --episodes {SMALL} and without --game",
        ),
        (lambda e: e["config"]["suite"].update(episodes=10**9), f"but an entry needs {SMALL}"),
        (
            lambda e: [e["config"]["suite"]["tasks"].pop(game) for game in ("Bandit", "Sokoban")],
            "the run lacks Bandit, Sokoban, but an entry plays all games of the suite 'core': play it again "
            "without --game",
        ),
        (
            lambda e: e["config"]["suite"]["tasks"]["Sokoban"].update(env="ragen/CubeText-v0"),
            "config.suite.tasks.Sokoban",
        ),
        (
            lambda e: e["config"]["suite"]["tasks"]["Bandit"].update(settings={"demonstrations": 2}),
            "alike for all games",
        ),
        (
            lambda e: e["config"]["suite"]["tasks"]["Bandit"].update(settings={"max_turns": 9}),
            "config.suite.tasks",
        ),
        (lambda e: e["config"]["suite"]["sampling"].update(temperature=-1), "temperature"),
        (lambda e: e["config"]["agents"].append({"name": "x", "weights": None}), "alone"),
        (lambda e: e["config"]["agents"][0].update(weights="<script>"), "weights"),
        (
            lambda e: e["config"]["agents"][0].update(endpoint={"base_url": "http://10.0.0.1/v1"}),
            "base_url must be omitted",
        ),
        (lambda e: e["results"].pop("Bandit"), "results has"),
        (lambda e: e["results"]["Bandit"].update(success=1.5), "success"),
        (lambda e: e.update(attempts=4), "attempts"),
        (lambda e: e["config"].update(attempts=4), "config.attempts is 4, but must be 1"),
    ],
)
def test_a_rule_that_is_broken_is_named(entry, how, named, rejected):
    change(entry, how)
    assert named in rejected(entry)


@pytest.mark.parametrize("field", ["solved", "success", "mean_return", "valid", "turns", "errors"])
def test_every_number_is_recomputed(entry, field, rejected):
    value = 0.123 if field not in ("solved", "errors") else 7
    change(entry, lambda e: e["results"]["Bandit"].update({field: value}))
    assert f"results.Bandit.{field}: recorded {value}" in rejected(entry)


# --- episodes --------------------------------------------------------------------------------------


def _first_turn(**fields):
    return lambda episodes: episodes[0]["turns"][0].update(fields)


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (lambda e: e.pop(), f"{EPISODES - 1} episodes, but must have {EPISODES}"),
        (lambda e: e.append(e[0]), f"{EPISODES + 1} episodes, but must have {EPISODES}"),
        (lambda e: e.__setitem__(1, e[0]), "line 2 repeats line 1"),
        (lambda e: e[0].update(attempt=1), "line 1 is random / Bandit / instance 0, attempt 1"),
        (lambda e: e[0]["instance"].update(index=5000), "instance 5000"),
        (lambda e: e[0]["instance"].update(level="Ab/Cd"), "instance.level"),
        (lambda e: e[0]["instance"].update(split="train"), "instance.split"),
        (lambda e: e[0].update(task="Chess"), "line 1 is random / Chess"),
        (lambda e: e[0].update(env_kwargs={"max_turns": 10**9}), "env_kwargs"),
        (lambda e: e[0].update(agent="\x1b[2J"), "line 1 is"),
        (lambda e: e[0]["turns"].extend(e[0]["turns"] * 40), "turns: recorded 41"),
        (lambda e: e[0].update(success=not e[0]["success"]), "success"),
        (lambda e: e[0].update(optimal_success=0.5), "optimal_success"),
        (_first_turn(rewards=[99.0]), "rewards"),
        (_first_turn(seconds=1e308), "4294967296"),
        (_first_turn(prompt_tokens=10**18), "prompt_tokens"),
        (_first_turn(reply="<think>wise</think><answer>Up</answer>"), "reply"),
        (_first_turn(user="<script>alert(1)</script>"), "user"),
    ],
)
def test_an_episode_that_was_not_played_is_rejected(entry, how, named, rejected):
    episodes = read(entry)
    how(episodes)
    write(entry, episodes)
    assert named in rejected(entry)


def test_a_reply_may_say_anything_that_the_game_reads_the_same(entry, capsys):
    """Nobody can tell what a model has thought; the pages have to show it without harm."""
    model = as_model(entry, "rogue", "<img src=x onerror=alert(1)>\u202e\x1b[2J")
    assert main(["leaderboard", "check", str(model)]) == 0


def test_a_model_that_says_it_is_a_control_is_rejected(entry, rejected):
    noop = as_model(entry, "noop")
    assert "reply" in rejected(noop)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_bytes_get_further_than_an_entry_error(data):
    for read_any in (store.parse_json, store.unpack):
        with contextlib.suppress(EntryError):
            read_any(data, "it")


def test_reading_plays_nothing_and_keeps_the_order(entry):
    stored = read_entry(entry)
    keys = [record.episode.key for record in stored.records]
    assert keys == stored.entry.config.keys


@pytest.mark.parametrize("value", [10**400, -(10**18), 1 << 60])
@pytest.mark.parametrize("field", ["reply_tokens", "prompt_tokens"])
def test_token_counts_are_bounded(entry, field, value, rejected):
    episodes = read(entry)
    episodes[5]["turns"][0][field] = value
    write(entry, episodes)
    assert "line 6" in rejected(entry)


def test_an_entry_that_breaks_the_check_does_not_hide_the_others(entry, tmp_path, capsys, monkeypatch):

    other = small_copy("noop", tmp_path)
    real = check.read_entry

    def read_or_break(folder):
        if folder == entry:
            raise RecursionError("too deep")
        return real(folder)

    monkeypatch.setattr(check, "read_entry", read_or_break)
    assert main(["leaderboard", "check", str(entry), str(other)]) == 1
    shown = capsys.readouterr()
    assert f"REJECTED {entry}: RecursionError: too deep" in shown.err
    assert f"OK {other}" in shown.out
    assert "success, %: Bandit " in shown.out


@pytest.mark.parametrize("alike", ["MY  agent", "My-Agent.", "MyAgent"])
def test_two_titles_that_look_alike_are_refused(entry, tmp_path, capsys, alike):
    first = as_model(entry, "first")
    second = as_model(small_copy("noop", tmp_path), "second", reply="noop")
    change(first, lambda e: e["about"].update(title="My Agent"))
    change(second, lambda e: e["about"].update(title=alike))
    assert main(["leaderboard", "check", str(first), str(second)]) == 1
    assert "looks like that of 'first'" in capsys.readouterr().err
    assert main(["leaderboard", "build", "--entries", str(tmp_path), "--out", str(tmp_path / "s")]) == 2


@pytest.mark.parametrize("error", ["RequestFailedError: no", None])
def test_errors_are_capped(entry, rejected, error):
    """Episodes that exceed the context count too, or lost ones could be declared to have done so."""
    agent = as_model(entry, "flaky")
    episodes = read(agent)
    for episode in episodes[:2]:
        episode.update(end="error" if error else "overflow", error=error, success=False)
    write(agent, episodes)
    message = f"2 of {EPISODES} episodes ended in an error or exceeded the context, but at most 2%"
    assert message in rejected(agent)


def test_cells_cannot_be_formulas(tmp_path):
    import pandas as pd
    from ragen_bench.leaderboard.site import write_table

    write_table(tmp_path, "t", pd.DataFrame({"title": ["=1+1", "@x", "fine", "-2"], "n": [-1, 2, 3, 4]}))
    assert (tmp_path / "t.csv").read_text() == "title,n\n'=1+1,-1\n'@x,2\nfine,3\n'-2,4\n"
    assert list(pd.read_parquet(tmp_path / "t.parquet")["title"]) == ["=1+1", "@x", "fine", "-2"]


@pytest.mark.parametrize("title", ["OracIe", "0racle", "Orac|e", "ORACLE"])
def test_titles_that_look_like_a_control_are_refused(entry, title, rejected):
    agent = as_model(entry, "agent")
    change(agent, lambda e: e["about"].update(title=title))
    assert "looks like that of the control" in rejected(agent)


def test_bodies_of_requests_hold_no_secrets_and_are_shown_in_ascii(entry, rejected):
    agent = as_model(entry, "agent")
    endpoint = {"extra_body": {"a": [{"api_key": "sk-1"}]}}
    change(agent, lambda e: e["config"]["agents"][0].update(endpoint=endpoint, weights=None))
    assert "has the field 'api_key'" in rejected(agent)
    shown = EndpointSettings(extra_body={"a": "b\u202e\x1b"})
    assert all(word.isascii() and word.isprintable() for word in agent_words(shown) + agent_options(shown))


def test_replies_of_another_entry_are_refused(entry, tmp_path, capsys):
    agent = as_model(Path(shutil.copytree(entry, tmp_path / "b" / entry.name)), "agent")
    assert main(["leaderboard", "check", str(entry), str(agent)]) == 1
    said = f"the replies of 'agent' are those of '{entry.name}'"
    assert f"REJECTED {said}" in capsys.readouterr().err
    agent.rename(entry.with_name("agent")).with_name("b").rmdir()
    options = ["--entries", str(entry.parent), "--results", str(tmp_path), "--out", str(tmp_path / "site")]
    assert main(["leaderboard", "build", *options]) == 2
    assert "the replies of 'random' are those of 'agent'" in capsys.readouterr().err
