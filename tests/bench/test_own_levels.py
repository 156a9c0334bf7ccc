"""Levels of one's own and settings without a pack, through the commands."""

import pytest
import yaml
from ragen_bench import load
from ragen_bench.__main__ import main
from ragen_bench.config.own_levels import limits_for
from ragen_bench.play.terminal import open_game
from ragen_bench.training.train_settings import make_train_config
from ragen_bench.training_sweeps.sweep_config import load_sweep
from ragen_bench.training_sweeps.tasks import Choice, plan

LEVELS = "; short\n#####\n#@$.#\n#####\n\n; spare box\n#######\n#@ $ .#\n# $   #\n#     #\n#######\n"
TEXTS = ["#####/#PXO#/#####", "#######/#P_X_O#/#_X___#/#_____#/#######"]
NOTE = "Sokoban: 2 levels of your own, not of the suite"
CONTROLS = ("--agent", "random", "--agent", "oracle")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a file of levels, which is gone."""
    folder = tmp_path_factory.mktemp("own")
    file = folder / "mine.xsb"
    file.write_text(LEVELS)
    assert (
        main(
            [
                "bench",
                "--game",
                "sokoban",
                "--levels",
                str(file),
                *CONTROLS,
                "--out",
                str(folder / "run"),
            ]
        )
        == 0
    )
    file.unlink()
    return folder / "run"


def test_a_run_holds_its_levels(run, capsys):
    suite = yaml.safe_load((run / "config.yaml").read_text())["suite"]
    assert suite["episodes"] == 2
    assert suite["tasks"]["Sokoban"]["settings"] == {"levels": TEXTS}
    assert main(["verify", str(run)]) == 0
    assert "4 episodes" in capsys.readouterr().out


def test_titles_do_not_call_them_test_levels(run):
    assert next(iter(load(run).table().grids)).endswith(f", own levels, {run}")


@pytest.mark.parametrize("command", ["show", "explain", "compare"])
def test_every_table_says_so(run, command, capsys):
    sides = [f"{run}:oracle", ":random"] if command == "compare" else [str(run)]
    assert main([command, *sides, "--format", "markdown"]) == 0
    assert NOTE in " ".join(capsys.readouterr().out.split())


def test_pages_say_so(run, tmp_path, capsys):
    assert main(["view", str(run), "--out", str(tmp_path / "site")]) == 0
    assert NOTE in (tmp_path / "site" / "index.html").read_text()


def test_the_leaderboard_refuses_them(run, tmp_path, capsys):
    about = tmp_path / "about.yaml"
    about.write_text(
        "name: oracle\ntitle: Mine\nmodel: m\nauthors: A\n"
        "description: d.\ncontamination: none\ntrained_on: []\n"
    )
    entries = tmp_path / "entries"
    assert main(["submit", f"{run}:oracle", "--about", str(about), "--entries", str(entries)]) == 2
    assert "levels of your own on Sokoban" in capsys.readouterr().err
    assert not entries.exists()


def test_only_the_first_levels_are_solved_for_the_limits():
    """A file of many levels is not searched from its beginning to its end before anything is played."""
    short, long = "#####/#PXO#/#####", f"{'#' * 30}/#PX{'_' * 25}O#/{'#' * 30}"
    env = "ragen/SokobanText-v0"
    assert limits_for(env, {"levels": [short] * 31 + [long]})["max_actions"] == 2 * 26
    assert limits_for(env, {"levels": [short] * 32 + [long]}) == {}


def test_levels_without_a_known_solution_are_counted_where_limits_are_chosen(caplog):
    levels = ["#####/#PXO#/#####", "#####/#PX##/#O###/#####"]
    assert limits_for("ragen/SokobanText-v0", {"levels": levels}) == {}
    assert "1 of 2 levels have no solution, or none that can be found" in caplog.text


def test_limits_fit_the_longest_solution(tmp_path, capsys):
    file = tmp_path / "long.xsb"
    file.write_text("#" * 16 + "\n#@$" + " " * 11 + ".#\n" + "#" * 16 + "\n")
    base = ["bench", "--game", "sokoban", "--levels", str(file), "--agent", "oracle"]
    for more, expected in (
        ([], {"max_actions": 24, "max_turns": 5}),
        (["--setting", "actions_per_turn=30"], {"actions_per_turn": 30}),
    ):
        out = tmp_path / f"run{len(more)}"
        assert main([*base, *more, "--out", str(out)]) == 0
        settings = yaml.safe_load((out / "config.yaml").read_text())["suite"]["tasks"]["Sokoban"]
        del settings["settings"]["levels"]
        assert settings["settings"] == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--levels", "nowhere.xsb"], "needs one game"),
        (["--game", "sokoban", "--levels", "nowhere.xsb"], "cannot be read: No such file"),
        (["--game", "cube", "--levels", "nowhere.xsb"], "CubeEnv reads no level files"),
        (
            ["--game", "sokoban", "--setting", f"levels={TEXTS}", "--episodes", "3"],
            "instances 0 to 1",
        ),
    ],
)
def test_wrong_levels(arguments, words, tmp_path, capsys):
    assert main(["bench", *arguments, "--agent", "random", "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_suites_with_a_level_or_without_a_pack(tmp_path, capsys):
    tasks = {
        "Lake": {"env": "ragen/FrozenLakeText-v0", "settings": {"level": ["SFF", "FHG"]}},
        "Wide": {"env": "ragen/FrozenLakeText-v0", "settings": {"size": [3, 5]}},
        "Four": {"env": "ragen/MinesweeperText-v0", "settings": {"mines": 4}},
        "Short": {"env": "ragen/CubeText-v0", "settings": {"scramble": 2}},
    }
    path, out = tmp_path / "mine.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump({"name": "mine", "version": 1, "episodes": 3, "tasks": tasks}))
    assert main(["bench", "--suite", str(path), *CONTROLS, "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Lake: 1 level of your own" in said
    assert "Wide:" not in said
    assert main(["verify", str(out)]) == 0


def test_training_settings_hold_the_levels(tmp_path):
    file = tmp_path / "mine.xsb"
    file.write_text(LEVELS)
    config = make_train_config("sokoban", None, None, [f"env_kwargs.levels={file}"], hashed=False)
    assert config.env_kwargs == {"levels": TEXTS}
    assert config.evaluation.episodes == 2
    given = [f"env_kwargs.levels={file}", "evaluation.episodes=1"]
    assert make_train_config("sokoban", None, None, given, hashed=False).evaluation.episodes == 1


def test_playing_a_level_of_a_file(tmp_path):
    file = tmp_path / "mine.xsb"
    file.write_text(LEVELS)
    assert "#PXO#" in open_game("sokoban", 0, "test", None, {"levels": str(file)}).state_text()


def test_a_sweep_trains_and_tests_on_the_levels_of_a_file(tmp_path):
    file = tmp_path / "mine.xsb"
    file.write_text(LEVELS)
    sweep = load_sweep("granularity")
    cells = {
        name: cell.model_copy(update={"settings": {"levels": str(file)}})
        for name, cell in sweep.cells.items()
    }
    sweep = sweep.model_copy(update={"cells": cells, "games": {"Sokoban": ["Sokoban"]}})
    task = plan(sweep, Choice(seeds=1))[-1]
    assert task.train.env_kwargs["levels"] == TEXTS
    assert task.train.evaluation.episodes == task.suite.episodes == 2
    assert {tuple(test.settings["levels"]) for test in task.suite.tasks.values()} == {tuple(TEXTS)}


def test_a_level_without_a_solution_is_played(tmp_path):
    (tmp_path / "stuck.xsb").write_text("#####\n#$@.#\n#####\n")
    out = tmp_path / "run"
    command = ["bench", "--game", "sokoban", "--levels", str(tmp_path / "stuck.xsb"), *CONTROLS]
    assert main([*command, "--out", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
