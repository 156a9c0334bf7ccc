"""What people get wrong at first is named, with what would be right."""

import pytest

pytest.importorskip("torch")

from ragen_bench.__main__ import main
from training_runs import trainer


@pytest.mark.parametrize("command", ["show", "verify", "explain"])
def test_a_training_run_is_told_from_a_run_of_an_agent(command, tiny, tmp_path, capsys):
    trainer(tmp_path / "run", {"game": "ragen/BanditText-v0", "model": str(tiny), "iterations": 1}).run()
    capsys.readouterr()
    assert main([command, str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "is a run of ragen train, which ragen report and ragen view show" in said
    assert "ragen bench --agent" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "--game", "SokobanCoop"],
        ["bench", "--game", "ragen/sokoban_coop_text-v0"],
        ["play", "sokoban_coop"],
        ["train", "bandit_market"],
    ],
)
def test_games_for_several_players_are_known_as_such(arguments, capsys):
    assert main(arguments) == 2
    assert "; ragen match plays games for several players" in capsys.readouterr().err


def test_match_names_its_own_games(capsys):
    assert main(["match", "--agent", "random", "--agent", "random", "--game", "Sokobann"]) == 2
    said = capsys.readouterr().err
    assert "SokobanCoop" in said
    assert "ragen match plays" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "--suite", "mine.yaml"],
        ["train-sweep", "there/mine.yaml", "--dry-run"],
        ["train", "mine.yaml"],
    ],
)
def test_a_file_that_is_not_there_is_no_unknown_name(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert (
        capsys.readouterr().err == f"error: there is no file '{arguments[1 + (arguments[0] == 'bench')]}'\n"
    )


def test_a_setting_that_a_game_lacks_is_named_with_those_that_it_has(capsys):
    assert main(["play", "sokoban", "--setting", "foo=1"]) == 2
    said = capsys.readouterr().err
    assert "has no setting 'foo'; known are " in said
    assert "max_turns" in said
    assert "boxes" in said


def test_where_an_agent_failed_is_shown_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_agent.py").write_text("async def agent(request):\n    return {}['k']\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["--agent", "broken_agent:agent", "--game", "Bandit", "--episodes", "3"]
    main(["bench", *arguments, "--out", str(tmp_path / "run")])
    said = capsys.readouterr().err
    assert said.count("Traceback") == 1
    assert "return {}['k']" in said


def test_leaderboards_are_looked_for_in_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["leaderboard", "check"]) == 2
    assert "run the command in a checkout, or name the folder with --entries" in capsys.readouterr().err


def test_the_help_of_agents_is_whole_at_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("bench", "match"):
        assert main([command, "--help"]) == 0
        assert "module:Agent" in capsys.readouterr().out


def test_more_episodes_than_levels_are_named_as_such(tmp_path, capsys):
    arguments = [
        "bench",
        "--agent=random",
        "--game=Sokoban",
        "--episodes=5000",
        f"--out={tmp_path / 'run'}",
    ]
    assert main(arguments) == 2
    assert "episodes is 5000: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_import_after_the_command_says_where_it_stands(capsys):
    assert main(["games", "--import", "lift.py"]) == 2
    assert "it stands before the command: ragen --import FILE" in capsys.readouterr().err
