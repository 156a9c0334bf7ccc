"""`ragen compare`: pairs, tests, ties, and how the two sides are named."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from endpoint_server import EndpointServer
from entries import ENTRIES
from ragen_bench.__main__ import main
from ragen_bench.evaluation.comparison import compare_sides, read_side
from ragen_bench.stats.paired import holm, mcnemar_exact, paired_bootstrap

GAMES = ("Bandit", "BanditTrap", "Cube")
AGENTS = ("random", "noop", "oracle")


def bench(out, agents=AGENTS, games=GAMES, episodes=24, more=()):
    named = [o for agent in agents for o in ("--agent", agent)]
    named += [o for game in games for o in ("--game", game)]
    command = ["bench", *named, "--episodes", str(episodes), "--out", str(out), *more]
    assert main(command) == 0
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return bench(tmp_path_factory.mktemp("runs") / "run")


def compare(capsys, *arguments):
    capsys.readouterr()
    assert main(["compare", *map(str, arguments), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    return {(row["game"], row["measure"]): row for row in answer["rows"]}, answer["notes"]


def test_known_differences_are_found(run, capsys):
    rows, _ = compare(capsys, f"{run}:oracle", ":noop")
    for game in GAMES:
        row = rows[game, "success"]
        assert (row["a"], row["b"], row["difference"]) == (1, 0, 1)
        assert (row["n"], row["a_more"], row["b_more"]) == (24, 24, 0)
        assert row["p"] == pytest.approx(2 * 0.5**24)
        assert row["verdict"] == "A better"
    rows, _ = compare(capsys, f"{run}:noop", ":oracle")
    assert {row["verdict"] for row in rows.values() if row["measure"] == "success"} == {"B better"}


def test_two_agents_of_a_run_can_be_looked_at(run, tmp_path, capsys):
    _, notes = compare(capsys, f"{run}:oracle", ":noop")
    assert f"to see both agents level by level: ragen view {run}" in notes
    other = shutil.copytree(run, tmp_path / "other")
    _, notes = compare(capsys, f"{run}:oracle", f"{other}:noop")
    assert f"to see both agents level by level: ragen view {run} {other}" in notes


def test_an_agent_ties_with_itself(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    rows, _ = compare(capsys, f"{run}:random", f"{other}:random")
    assert {(row["verdict"], row["p"], row["difference"]) for row in rows.values()} == {
        ("undecided", 1.0, 0.0)
    }


def test_episodes_of_one_level_count_together(run, tmp_path, capsys):
    shared = Path(shutil.copytree(run, tmp_path / "run"))
    lines = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for line in lines:
        line["instance"]["key"] = f"{line['instance']['index'] // 8:016x}"
    (shared / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (shared / "episodes.sha256").unlink(missing_ok=True)
    rows, notes = compare(capsys, f"{shared}:oracle", ":noop")
    counts = ", ".join(f"{game} 24 episodes on 3 levels" for game in GAMES)
    assert f"intervals and tests are clustered by level where levels repeat: {counts}" in notes
    for game in GAMES:
        row = rows[game, "success"]
        assert (row["n"], row["difference"]) == (24, 1)
        assert 0.2 < row["p"] < 0.3
        assert row["verdict"] == "undecided"
    lows = []
    for folder in (run, shared):
        assert main(["show", str(folder), "--format", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        lows.append([row["success_low"] for row in answer["rows"] if row["agent"] == "oracle"])
        notes = [note for note in answer["notes"] if "clustered by level" in note]
        if folder == shared:
            assert all(f"{game} 24 episodes on 3 levels" in notes[0] for game in GAMES)
    assert all(b < a for a, b in zip(*lows, strict=True))


def test_tests_are_paired_by_instance_and_adjusted_over_games(run):
    a, b = read_side(f"{run}:random"), read_side(f"{run}:oracle")
    data, _ = compare_sides(a, b)
    for measure in ("success", "return"):
        part = data[data["measure"] == measure]
        expected = []
        for game in GAMES:
            first, second = a.run.samples["random", game], b.run.samples["oracle", game]
            if measure == "success":
                values = [[s[i].success for i in range(24)] for s in (first, second)]
                expected.append(mcnemar_exact(*map(np.array, values)))
            else:
                values = [[s[i].episode_return for i in range(24)] for s in (first, second)]
                expected.append(paired_bootstrap(*values, seed=0))
        assert part["p"].tolist() == [e.p_value for e in expected]
        assert part["p_holm"].tolist() == holm([e.p_value for e in expected]).tolist()
        assert part["difference"].tolist() == [e.difference.estimate for e in expected]


def test_runs_with_other_episodes_are_paired_where_they_meet(run, tmp_path, capsys):
    few = bench(tmp_path / "few", ("oracle",), ("BanditTrap", "Sokoban"), 5)
    rows, notes = compare(capsys, f"{run}:oracle", few)
    assert set(rows) == {("BanditTrap", "success"), ("BanditTrap", "return")}
    assert rows["BanditTrap", "success"]["n"] == 5
    assert "games of only one side: Bandit, Cube, Sokoban" in notes


def test_games_that_one_side_has_not_reached_yet_are_not_called_foreign(run, tmp_path, capsys):
    part = shutil.copytree(run, tmp_path / "part")
    lines = (part / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (part / "episodes.jsonl").write_bytes(b"".join(lines[:30]))
    (part / "episodes.sha256").unlink(missing_ok=True)
    rows, notes = compare(capsys, f"{part}:random", f"{run}:oracle")
    assert {game for game, _ in rows} == {"Bandit", "BanditTrap"}
    assert "games of which no level has been played by both: Cube" in notes
    assert not any("only one side" in note for note in notes)
    assert f"{part} is unfinished" in notes


def test_people_see_the_sides_and_the_ties(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    capsys.readouterr()
    assert main(["compare", f"{run}:random", f"{other}:random"]) == 0
    shown = capsys.readouterr().out
    assert f"A = {run}:random" in shown
    assert "24 levels can only show large differences (ragen power --effect 10pp" in shown
    assert shown.count("undecided") >= 2 * len(GAMES)
    assert main(["compare", f"{run}:random", ":oracle", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.count("| Bandit |") == 2


def test_paths_of_notes_stay_whole_on_narrow_terminals(run, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "experiments-of-the-spring" / "second-series-with-other-prompts"
    other = shutil.copytree(run, folder)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["compare", f"{run}:random", f"{other}:random"]) == 0
    assert f"{other}:random" in capsys.readouterr().out


def test_a_run_with_one_agent_that_is_no_control_needs_no_name(run, tmp_path, capsys):
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    _rename(copy, "noop", "hf:mine/model")
    rows, _ = compare(capsys, copy, ":oracle")
    assert rows["Bandit", "success"]["b"] == 1
    rows, _ = compare(capsys, f"{copy}:hf:mine/model", f"{run}:noop")
    assert {row["verdict"] for row in rows.values()} == {"undecided"}


def _rename(run, old, new):
    from ragen_bench.config.run_config import RunConfig

    config = yaml.safe_load((run / "config.yaml").read_text().replace(old, new))
    del config["digest"]
    digest = RunConfig.model_validate(config).digest
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "digest": digest}, sort_keys=False))
    text = (run / "episodes.jsonl").read_text()
    (run / "episodes.jsonl").write_text(text.replace(f'"agent":"{old}"', f'"agent":"{new}"'))
    (run / "episodes.sha256").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("a", "b", "named"),
    [
        ("{run}", "{run}:oracle", "has the agents random, noop, oracle"),
        ("{run}:nobody", "{run}:oracle", "unknown agent 'nobody'"),
        ("{run}:oracle", "nowhere", "no run directory 'nowhere'"),
        ("nowhere:oracle", "{run}:oracle", "no run directory 'nowhere'"),
        (":oracle", "{run}:oracle", "write RUN:AGENT"),
        ("{run}:oracle", ":oracle", "both sides are {run}:oracle; name two agents, or two runs"),
        ("{run}:oracle", "{run}/../run:oracle", "both sides are {run}:oracle"),
    ],
)
def test_sides_that_are_not_there(run, a, b, named, capsys):
    assert main(["compare", a.format(run=run), b.format(run=run)]) == 2
    assert named.format(run=run) in capsys.readouterr().err


def test_settings_that_differ_are_named(run, tmp_path, capsys):
    one = ("oracle",), ("Bandit",), 2
    shown = bench(tmp_path / "shown", *one, more=["--setting", "demonstrations=2"])
    assert main(["compare", f"{run}:oracle", str(shown)]) == 2
    error = capsys.readouterr().err
    assert f"in the two runs: demonstrations is 0 in {run} and 2 in {shown}" in error
    assert "max_turns" not in error
    written = bench(tmp_path / "written", *one, more=["--setting", "demonstrations=0"])
    rows, _ = compare(capsys, f"{run}:oracle", written)
    assert rows["Bandit", "success"]["n"] == 2
    large = [
        bench(tmp_path / name, ("noop",), ("SokobanLarge",), 2, more)
        for name, more in (("plain", ()), ("size", ["--setting", "size=8", "--setting", "max_turns=5"]))
    ]
    rows, _ = compare(capsys, *large)
    assert rows["SokobanLarge", "success"]["n"] == 2


def test_returns_on_one_level_have_no_interval(tmp_path, capsys):
    one = bench(tmp_path / "one", ("random", "noop"), ("Bandit",), 1)
    rows, _ = compare(capsys, f"{one}:random", ":noop")
    assert rows["Bandit", "return"]["low"] is rows["Bandit", "return"]["high"] is None
    assert rows["Bandit", "success"]["low"] < rows["Bandit", "success"]["high"]
    assert main(["compare", f"{one}:random", ":noop", "--format", "markdown"]) == 0
    assert re.search(r"\| -?\d+\.\d\d \[-\] \|", capsys.readouterr().out)


def test_an_entry_of_the_leaderboard_is_no_run(run, fails):
    said = "is a leaderboard entry; use ragen view, ragen explain or ragen leaderboard check"
    assert said in fails("compare", ENTRIES / "random", f"{run}:oracle")
    assert said in fails("show", ENTRIES / "random")


def test_the_verdicts_fit_a_narrow_terminal(run, monkeypatch, capsys):
    for name, value in (("COLUMNS", "80"), ("TERM", "xterm"), ("TTY_COMPATIBLE", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_COLOR", "1")
    capsys.readouterr()
    assert main(["compare", f"{run}:random", ":noop"]) == 0
    shown = re.sub(r"\x1b\[\d+m", "", capsys.readouterr().out)
    assert "left out at 80 columns" in shown
    assert "undecided" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_other_games_settings_splits_and_levels_are_refused(run, tmp_path, capsys):
    other = bench(tmp_path / "other", ("oracle",), ("Sokoban",), 2)
    assert main(["compare", f"{run}:oracle", str(other)]) == 2
    assert "no instance in common" in capsys.readouterr().err

    task = {"env": "ragen/BanditText-v0"}
    suite = {"name": "mine", "version": 1, "episodes": 3, "tasks": {"Bandit": task}}
    others = (
        ({"tasks": {"Bandit": {**task, "settings": {"think": False}}}}, "think is True in"),
        ({"split": "train"}, "split is test in"),
        ({"tasks": {"Bandit": {**task, "split": "train"}}}, "split is test in"),
    )
    path = tmp_path / "mine.yaml"
    for number, (changes, named) in enumerate(others):
        path.write_text(yaml.safe_dump({**suite, **changes}))
        out = tmp_path / f"{number}"
        command = ["bench", "--suite", str(path), "--agent", "oracle", "--out", str(out)]
        assert main(command) == 0
        assert main(["compare", f"{run}:oracle", str(out)]) == 2
        said = capsys.readouterr().err
        assert "different settings" in said
        assert named in said

    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    text = (copy / "episodes.jsonl").read_text()
    level = json.loads(text.splitlines()[0])["instance"]["level"]
    (copy / "episodes.jsonl").write_text(text.replace(level, "Baker/Pilot", 1))
    (copy / "episodes.sha256").unlink(missing_ok=True)
    assert main(["compare", f"{run}:random", f"{copy}:random"]) == 2
    assert "another level" in capsys.readouterr().err


def test_settings_that_differ_far_behind_their_beginning_are_noticed(tmp_path, capsys):
    names = ("box", "box on target", "empty", "player", "player on target", "target")
    symbols = dict(zip(names, "XB_PSO", strict=True))
    runs = []
    for wall in "#W":
        settings = {"symbols": {**symbols, "wall": wall}}
        task = {"env": "ragen/SokobanText-v0", "settings": settings}
        suite = {"name": "mine", "version": 1, "episodes": 2, "tasks": {"Sokoban": task}}
        path, out = tmp_path / f"{wall}.yaml", tmp_path / wall
        path.write_text(yaml.safe_dump(suite))
        assert main(["bench", "--suite", str(path), "--agent", "oracle", "--out", str(out)]) == 0
        runs.append(str(out))
    assert main(["compare", *runs]) == 2
    assert "was played under different settings in the two runs: symbols is" in (capsys.readouterr().err)


def test_settings_of_requests_that_differ_are_named(tmp_path, capsys):
    def play(name, *more):
        out = tmp_path / name
        words = ["bench", "--agent", "openai:m", "--agent", "random", "--base-url", server.url]
        words += ["--game", "Bandit", "--episodes", "2", "--out", str(out), *more]
        assert main(words) == 0
        return out

    with EndpointServer() as server:
        plain = play("plain")
        other = play("other", "--stop", "###", "--extra-body", '{"top_p": 0.5, "n_best": null}')
    _, notes = compare(capsys, f"{plain}:openai:m", f"{other}:openai:m")
    assert (
        "the runs have different decoding settings: stop is [] in A and ['###'] in B, "
        "extra_body.top_p is not set in A and 0.5 in B, "
        "extra_body.n_best is not set in A and None in B"
    ) in notes
    for a, b in ((plain, plain), (plain, other)):
        _, notes = compare(capsys, f"{a}:random", f"{b}:openai:m" if a == b else f"{b}:random")
        assert not any("decode" in note for note in notes)
    warm = bench(tmp_path / "warm", ("random",), ("Bandit",), 2, ["--temperature", "1"])
    _, notes = compare(capsys, f"{plain}:random", warm)
    assert not any("decode" in note for note in notes)
    with EndpointServer() as server:
        warm = play("warm model", "--temperature", "1")
    _, notes = compare(capsys, f"{plain}:openai:m", f"{warm}:openai:m")
    assert "the runs have different decoding settings: temperature is 0.5 in A and 1.0 in B" in notes
