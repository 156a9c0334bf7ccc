"""Games and agents from outside: the scaffold, the example, and installed packages."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from ragen_bench.__main__ import main
from ragen_bench.new_game import new_game

from ragen_envs.errors import RagenError

ROOT = Path(__file__).parents[2]

AGENT = '''
from ragen_agents.policies import Reply

class Hare:
    """Runs to the right, whatever it is told."""

    name = "a name of its own"
    batch_size = 8

    def __init__(self, sampling):
        self.sampling = sampling

    def act(self, requests):
        return [Reply("<think>run</think><answer>Right || Right</answer>") for _ in requests]
'''
HARE = '\n[tool.hatch.build.targets.wheel]\ninclude = ["tall_tower", "hare.py"]\n'
POINTS = '\n[project.entry-points."ragen.policies"]\nhare = "hare:Hare"\n'


def run(*command, path="", **given):
    places = [path, str(ROOT), str(ROOT / "benchmarks")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in places if p)}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env=environment,
        **given,
    )  # fmt: skip


def ragen(*arguments, path="", cwd="."):
    (done,) = forked.run((("-m", "ragen_bench", *arguments), {"PYTHONPATH": path}), cwd=cwd)
    return done


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("games") / "tall_tower"
    new_game("tall_tower", folder)
    return folder


def test_a_new_game_of_words_passes_its_own_tests(tmp_path):
    """As one of numbers does in test_documented_commands.py, on the page that makes it."""
    new_game("tall_tower", tmp_path / "tower", words=True)
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path / "tower")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("words", [False, True])
def test_a_new_game_has_its_own_names(words, tmp_path):
    new_game("tall_tower", tmp_path / "tower", words)
    assert "newgame" not in "".join(p.read_text("utf-8") for p in tmp_path.rglob("*.py")).lower()


@pytest.mark.parametrize("name", ["Tower", "x", "9lives", "class", "json", "numpy", "ragen", "../up"])
def test_wrong_names_write_nothing(name, tmp_path, capsys):
    with pytest.raises(RagenError, match="name is"):
        new_game(name, tmp_path / "there")
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays(tmp_path, capsys):
    (tmp_path / "tower").mkdir()
    (tmp_path / "tower" / "mine.txt").write_text("precious")
    assert main(["new-game", "some_tower", "--out", str(tmp_path / "tower")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["tower", "mine.txt"]


@pytest.fixture(scope="module")
def installed(package, tmp_path_factory):
    """Return a folder into which the game and an agent are installed, as pip does it."""
    (package / "hare.py").write_text(AGENT, "utf-8")
    settings = package / "pyproject.toml"
    text = settings.read_text("utf-8") + HARE + POINTS
    settings.write_text(text, "utf-8")
    target = tmp_path_factory.mktemp("site")
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--quiet"]
    done = run("-m", "pip", "install", *options, "--target", str(target), str(package))
    assert done.returncode == 0, done.stderr
    return str(target)


def test_an_installed_game_is_listed_and_benched(installed, tmp_path):
    listed = ragen("games", "--format", "json", path=installed)
    rows = {row["text_id"]: row for row in json.loads(listed.stdout)["rows"]}
    assert rows["tall_tower/TallTowerText-v0"]["summary"] == "walk to the coin"
    assert rows["tall_tower/TallTowerText-v0"]["numbered"]
    benched = ragen(
        "bench", "--game", "tall_tower/TallTowerText-v0", "--agent", "random", "--agent", "hare",
        "--agent", "oracle", "--episodes", "12", "--out", str(tmp_path / "run"),
        "--format", "json", path=installed,
    )  # fmt: skip
    assert benched.returncode == 0, benched.stderr
    scores = {row["agent"]: row["success"] for row in json.loads(benched.stdout)["rows"]}
    assert set(scores) == {"random", "hare", "oracle"}
    assert scores["oracle"] == 1.0 > scores["hare"] > 0
    verified = ragen("verify", str(tmp_path / "run"), path=installed)
    assert verified.returncode == 0, verified.stderr
    gone = ragen("verify", str(tmp_path / "run"))
    assert gone.returncode == 2
    assert "unknown game 'tall_tower/TallTowerText-v0'" in gone.stderr


SMALL = (
    "iterations=1", "rollout.prompts_per_iteration=2", "rollout.group_size=2", "rollout.max_tokens=24",
    "update.mini_batch_size=4",
    "evaluation.every=1", "evaluation.episodes=2", "filter.kind=none",
)  # fmt: skip


def test_an_installed_game_is_trained_on(installed, tmp_path):
    out = tmp_path / "run"
    done = ragen("train", "tall-tower", "--out", str(out), *SMALL, path=installed)
    assert done.returncode == 0, done.stderr
    assert "game: tall_tower/TallTowerText-v0" in (out / "config.yaml").read_text()
    (metrics,) = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()][-1:]
    assert 0 <= metrics["validation/success"] <= 1
    assert (out / "best" / "model.safetensors").is_file()
    gone = ragen("train", "tall-tower", "--out", str(tmp_path / "other"), *SMALL)
    assert gone.returncode == 2
    assert "unknown game 'tall-tower'" in gone.stderr


def test_a_game_in_a_file_is_listed_benched_and_verified(tmp_path):
    (tmp_path / "games").mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "lights_out.py", tmp_path / "games")
    given = ("--import", "games/lights_out.py")
    listed = ragen(*given, "games", "--format", "json", cwd=tmp_path)
    assert "mine/LightsOutText-v0" in [row["text_id"] for row in json.loads(listed.stdout)["rows"]]
    command = (
        "--game",
        "mine/LightsOutText-v0",
        "--agent",
        "oracle",
        "--episodes",
        "4",
        "--out",
        "run",
    )
    benched = ragen(*given, "bench", *command, cwd=tmp_path)
    assert benched.returncode == 0, benched.stderr
    verify = re.search("^verify: ragen (.*)$", benched.stderr, re.MULTILINE)[1]
    assert ragen(*verify.split(), cwd=tmp_path).returncode == 0
    without = ragen("bench", *command[:-1], "other", cwd=tmp_path)
    assert without.returncode == 2
    assert "unknown game 'mine/LightsOutText-v0'; install the package" in without.stderr
    assert "ragen --import mine bench" in without.stderr


def test_a_file_that_registers_nothing_is_named(tmp_path):
    (tmp_path / "forgot.py").write_text("import ragen_envs")
    words = ("bench", "--game", "mine/ForgotText-v0", "--agent", "random")
    done = ragen("--import", "forgot.py", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "forgot.py was imported, but does not register it with ragen_envs.register_game" in done.stderr


@pytest.mark.parametrize("name", ["no_such_module", "broken.py"])
def test_what_cannot_be_imported_is_named(name, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    done = ragen("--import", name, "games", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: '{name}' cannot be imported: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_file_with_the_name_of_a_loaded_module_is_named(tmp_path):
    for folder, name in (("a", "rw.py"), ("b", "rw.py"), ("c", "json.py")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("")
    for names in (["c/json.py"], ["a/rw.py", "b/rw.py"]):
        given = [word for name in names for word in ("--import", name)]
        done = ragen(*given, "games", cwd=tmp_path)
        assert done.returncode == 2
        assert f"'{names[-1]}' cannot be imported: a module named" in done.stderr
        assert "rename the file" in done.stderr


def test_a_file_that_is_missing_is_named(tmp_path):
    done = ragen("--import", "no_such_file.py", "games", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: 'no_such_file.py' does not exist\n"


def test_a_folder_with_the_name_of_an_installed_agent_does_not_hide_it(installed, tmp_path):
    (tmp_path / "hare").mkdir()
    played = ["bench", "--agent", "hare", "--game", "Bandit", "--episodes", "1", "--out", "run"]
    done = ragen(*played, path=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_unknown_agents_and_games_name_the_installed_ones(installed, tmp_path):
    out = str(tmp_path / "run")
    done = ragen("bench", "--agent", "tortoise", "--out", out, path=installed)
    assert done.returncode == 2
    assert (
        "use random, noop, oracle, webshop-first-hit, webshop-rule, hare, starter, small-ice, small-lake, "
        "small-sokoban, small-thoughts, smollm2, gemma3-270m, a folder" in done.stderr
    )
    done = ragen("bench", "--agent", "hare", "--game", "Chess", "--out", out, path=installed)
    assert done.returncode == 2
    assert "unknown game 'Chess'" in done.stderr
    assert not Path(out).exists()


def test_a_broken_package_is_reported_and_skipped(tmp_path):
    folder = tmp_path / "broken-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[ragen.games]\nchess = no_such_module:GAME\n")
    done = ragen("games", path=str(tmp_path))
    assert done.returncode == 0
    assert "warning: could not load game 'chess' of broken: No module named 'no_such_module'" in done.stderr
    assert "ragen/Sokoban-v0" in done.stdout
