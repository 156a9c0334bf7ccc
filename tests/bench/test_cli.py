"""The command line: help, lists, playing, and one clear line for whatever is wrong."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import yaml
from ragen_bench.__main__ import main
from ragen_bench.cli import app
from ragen_bench.config.suites import load_suite
from ragen_bench.console import progress
from ragen_bench.play.terminal import read_actions
from rich.console import Console
from typer.testing import CliRunner

from ragen_agents.run_files.yaml_files import load_yaml
from ragen_envs import GAMES, SUITE_VERSION, __version__
from ragen_envs.errors import RagenError
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import text_ids

QUICK = ("--agent", "random", "--game", "Bandit", "--episodes", "3")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "finished"
    assert main(["bench", *QUICK, "--out", str(out)]) == 0
    return out


@pytest.fixture
def run(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def python(*arguments, **how):
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=600, **how
    )


# --- what is there -------------------------------------------------------------------------------


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert __version__ in result.output


def test_help_lists_every_command():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for name in (
        "bench",
        "match",
        "show",
        "compare",
        "verify",
        "play",
        "games",
        "starter",
        "models",
        "submit",
        "leaderboard",
    ):
        assert name in result.output
        assert CliRunner().invoke(app, [name, "--help"]).exit_code == 0


def test_games_lists_every_id(capsys):
    assert main(["games"]) == 0
    shown = capsys.readouterr().out
    for name in (*(game.id for game in GAMES), *text_ids()):
        assert name in shown
    assert all(game.text_id in shown for game in MULTI_AGENT_GAMES)
    assert "2048 / 512 / 1024" in shown
    assert "sokoban-8x8-2" in shown
    assert "none" in shown
    assert "0 / 0 / 0" not in shown


def test_help_wraps_at_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    shown = CliRunner().invoke(app, ["train", "--help"]).output
    paragraph = next(line for line in shown.splitlines() if "An existing run directory" in line)
    assert paragraph.rstrip().endswith("seconds of an iteration.")


def test_the_first_screen_says_what_to_type_first():
    shown = CliRunner().invoke(app, []).output
    assert "Start with ragen bench" in shown
    for command in ([], ["bench"], ["leaderboard", "build"]):
        shown += CliRunner().invoke(app, [*command, "--help"]).output
    assert not re.search(r"<(bool|int|str|path|list)", shown)
    assert re.search(r"--agent +AGENT ", shown)


def test_progress_of_a_long_name_fits_80_columns(monkeypatch):
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(progress, "stderr_console", lambda: console)
    bar = progress.RunProgress().of(0, 10_000)
    bar.start("openai:meta-llama/Llama-3.1-8B-Instruct", "SokobanNewVocab", 0, 10_000)
    bar._bar.update(bar._row, completed=5000)
    console.print(bar._bar.get_renderable())
    shown = console.file.getvalue()
    assert "SokobanNewVocab · Llama" in shown
    assert " 5000/10000 " in shown
    assert shown.rstrip().endswith(" left")
    assert len(shown.splitlines()) == 1


# --- what is wrong with the words ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["bench", "--agent", "nobody"], ["unknown agent 'nobody'", "random", "oracle"]),
        (["bench", "--agent", "nobody"], ["openai:MODEL", "package.module:Agent"]),
        (
            ["bench", "--agent", "nobody", "--base-url", "http://localhost:1/v1"],
            ["unknown agent 'nobody'; a model behind an endpoint is --agent openai:nobody"],
        ),
        (["bench", "--agent", ""], ["agent '' does not name a model", "openai:MODEL"]),
        (["bench", "--agent", "openai:"], ["agent 'openai:' does not name a model"]),
        (["bench", "--agent", "os:getcwd"], ["the module 'os' has no source file"]),
        (["bench", "--suite", "nothing"], ["unknown suite 'nothing'", "core"]),
        (["bench", "--game", "Chess"], ["unknown game 'Chess'", "Sokoban", "Cube"]),
        (["bench", "--tires", "3"], ["No such option: --tires"]),
        (["bench", "--max-retries", "-1"], ["max_retries is -1"]),
        (["bench", "--agent", "random", "--agent", "random"], ["'random' is named twice"]),
        (["bench", *QUICK[:4], "--episodes", "0"], ["episodes", "0"]),
        (["bench", *QUICK[:4], "--episodes", "5000"], ["'Bandit'", "4999", "1023"]),
        (["bench", *QUICK[:4], "--episodes", "many"], ["--episodes", "integer"]),
        (["bench", *QUICK, "--seed", "-1"], ["seed", "-1"]),
        (["bench", *QUICK, "--format", "pdf"], ["pdf"]),
        (["bench", "--frobnicate"], ["--frobnicate"]),
        (["frobnicate"], ["frobnicate"]),
        (["show"], ["RUN"]),
        (["show", "nowhere"], ["nowhere"]),
        (["verify", "nowhere"], ["nowhere"]),
        (["bench", "--setting", "demonstrations"], ["'demonstrations' must have the form"]),
        (["bench", "--setting", "demonstrations=17"], ["task 'Bandit'", "from 0 to 16"]),
        (["bench", "--setting", "hint=1"], ["has no setting 'hint'", "demonstrations"]),
        (["match", "--setting", "demonstrations=1"], ["keyword argument 'demonstrations'"]),
        (["play", "Sokoban", "--setting", "demonstrations=x"], ["demonstrations is 'x'"]),
        (["play", "Chess"], ["unknown game 'Chess'", "FrozenLake"]),
        (["play", "Sokoban", "--index", "5000"], ["5000", "1023"]),
        (["play", "Sokoban", "--index", "-1"], ["-1"]),
        (["play", "Sokoban", "--index", "1", "--split", "exam"], ["'exam'", "validation"]),
        (["play", "Sokoban", "--index", "1", "--seed", "1"], ["--index", "--seed"]),
        (["play", "Sokoban", "--seed", "-1"], ["seed", "-1"]),
    ],
)
def test_wrong_words_are_named(arguments, named, fails, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = fails(*arguments)
    assert all(part in error for part in named), error
    assert not any(tmp_path.iterdir())


SUITE = {"name": "mine", "version": 1, "tasks": {"B": {"env": "ragen/BanditText-v0"}}}


def _task(**task):
    return {"tasks": {"B": {"env": "ragen/SokobanText-v0", **task}}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epsiodes": 4}, ["unknown option 'epsiodes'", "episodes"]),
        ({"sampling": {"top_k": 3}}, ["unknown option 'top_k' in sampling", "temperature"]),
        (_task(setings={}), ["unknown option 'setings' in tasks.B", "settings"]),
        (_task(settings={"turns": 3}), ["has no setting 'turns'", "max_turns", "boxes"]),
        (_task(settings={"max_turns": 0}), ["'B'", "max_turns is 0"]),
        (_task(settings={"boxes": "two"}), ["boxes is 'two'"]),
        (_task(settings={"symbols": "emoji"}), ["'emoji'", "new_vocab"]),
        (_task(settings={"history": "some"}), ["'some'", "full"]),
        (_task(env="ragen/Sokoban-v0"), ["unknown game 'ragen/Sokoban-v0'", "SokobanText"]),
        (_task(env="os:system-v0"), ["unknown game 'os:system-v0'"]),
        ({"split": "exam"}, ["split", "'exam'", "validation"]),
        ({"episodes": "4"}, ["episodes", "'4'"]),
        ({"sampling": {"temperature": -1}}, ["sampling.temperature", "-1"]),
        ({"sampling": {"temperature": float("nan")}}, ["sampling.temperature"]),
        ({"sampling": {"max_tokens": 0}}, ["sampling.max_tokens"]),
        ({"tasks": {}}, ["tasks"]),
        ({"tasks": {"../B": {"env": "ragen/BanditText-v0"}}}, ["tasks"]),
        ({"name": "a/b"}, ["name"]),
        ({"version": None}, ["version"]),
    ],
)
def test_wrong_suites_are_named(changes, named, fails, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**SUITE, **changes}))
    error = fails("bench", "--suite", path, "--agent", "random", "--out", tmp_path / "run")
    assert all(part in error for part in named), error
    assert "mine" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: a\nname: b\n", "line 2: 'name' is a duplicate key"),
        ("name: [", "line 1"),
        ("- a\n- b\n", "must be a mapping"),
        ("", "must be a mapping"),
        ("!!python/object/apply:os.system [ls]", "line 1"),
        ("a: " + "[" * 5000, "mine.yaml"),
        ("\x00", "mine.yaml"),
        ("name: !!bool x", "mine.yaml"),
    ],
)
def test_files_that_are_no_yaml_are_named(text, named, fails, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert named in fails("bench", "--suite", path)


def test_a_task_may_begin_as_another(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nversion: 1\ntasks:\n"
        "  A: &a {env: ragen/BanditText-v0, settings: {max_turns: 2}}\n"
        "  B: {<<: *a, env: ragen/SokobanText-v0}\n"
    )
    tasks = load_suite(str(path)).tasks
    assert tasks["B"].env == "ragen/SokobanText-v0"
    assert tasks["B"].settings == tasks["A"].settings == {"max_turns": 2}


def test_what_is_set_again_in_an_anchor_is_no_duplicate():
    text = "a: &a {k: 0}\nX: {s: {t: &s {<<: *a, k: 1}}}\nY: {<<: *s, k: 2}\n"
    assert load_yaml(text, "it")["Y"] == {"k": 2}


# --- what is wrong with a directory --------------------------------------------------------------


def test_a_model_folder_without_weights(fails, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    out = tmp_path / "run"
    assert "holds no weights" in fails("bench", "--agent", tmp_path / "model", "--out", out)
    assert not out.exists()


def test_a_model_that_cannot_be_loaded_leaves_nothing(fails, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_text("{}")
    out = tmp_path / "run"
    error = fails("bench", *QUICK, "--agent", tmp_path / "model", "--out", out)
    assert str(tmp_path / "model") in error
    assert not out.exists()


def test_another_config_in_the_same_directory(run, fails):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for change, named in (
        (["--seed", "7"], "suite.seed is 0 there and 7 now"),
        (["--episodes", "4"], "suite.episodes"),
        (["--agent", "oracle"], f"'{run}' has the agent"),
        (["--game", "Sokoban"], "Sokoban"),
    ):
        assert named in fails("bench", *QUICK, *change, "--out", run)
    assert before == {path.name: path.read_bytes() for path in run.iterdir()}


def test_other_agents_in_the_same_directory_are_named(fails, tmp_path):
    out = tmp_path / "run"
    one = ["bench", "--game", "Bandit", "--episodes", "1", "--out", out]
    first = ["--agent", "random", "--agent", "oracle"]
    assert main([*map(str, one), *first]) == 0
    assert (
        f"'{out}' has the agents random, oracle, but this command names random, oracle, noop; choose another "
        f"--out, then compare them: ragen compare {out}:oracle NEW:noop"
    ) in fails(*one, *first, "--agent", "noop")
    error = fails(*one, "--agent", "oracle")
    assert "but this command names oracle; choose another --out" in error
    assert "compare" not in error


def test_another_suite_version(run, fails):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace(f"suite_version: {SUITE_VERSION}", "suite_version: 0"))
    for command in (["bench", *QUICK, "--out", run], ["verify", run], ["show", run]):
        assert "suite version 0" in fails(*command)


def test_an_edited_config(run, fails):
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("temperature: 0.5", "temperature: 0.7"))
    assert "was edited" in fails("show", run)


@pytest.mark.parametrize(
    ("text", "named"),
    [("a: &x [1]\nb: *x\n", "aliases"), ("", "mapping"), ("format: 1", "agents"), ("\t", "line")],
)
def test_a_broken_config(run, text, named, fails):
    (run / "config.yaml").write_text(text)
    assert named in fails("show", run)


@pytest.mark.parametrize("line", ["", "{}", "not json", '{"schema_version": 3}', "\ufffd"])
def test_a_corrupt_middle_line_is_named(run, line, fails):
    lines = (run / "episodes.jsonl").read_text().splitlines()
    (run / "episodes.jsonl").write_text("\n".join([lines[0], line, *lines[2:], ""]))
    for command in (["bench", *QUICK, "--out", run], ["show", run], ["verify", run]):
        message = fails(*command)
        assert "episodes.jsonl line 2 is corrupt" in message
        assert "but is b'" not in message


def test_a_repeated_line_is_named(run, fails):
    with (run / "episodes.jsonl").open("a") as file:
        file.write((run / "episodes.jsonl").read_text().splitlines()[0] + "\n")
    assert "line 4 repeats line 1" in fails("show", run)


def test_directories_that_are_something_else(fails, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    assert "not empty" in fails("bench", *QUICK, "--out", tmp_path)
    assert "cannot be written" in fails("bench", *QUICK, "--out", tmp_path / "thesis.tex")
    assert "not a run directory" in fails("show", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_place_where_nothing_can_be_written(fails):
    assert "cannot be written" in fails("bench", *QUICK, "--out", "/proc/ragen")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(run, fails, tmp_path):
    tmp_path.chmod(0o500)
    assert "Permission denied" in fails("bench", *QUICK, "--out", tmp_path / "new")
    (run / "episodes.jsonl").chmod(0o400)
    assert "Permission denied" in fails("bench", *QUICK, "--out", run)


# --- real processes ------------------------------------------------------------------------------


def test_a_process_ends_with_code_2_and_one_line():
    done = python("-m", "ragen_bench", "bench", "--agent", "nobody")
    assert done.returncode == 2
    assert re.fullmatch(r"error: unknown agent 'nobody'.*\n", done.stderr)


def test_a_person_plays_through_a_pipe():
    done = python("-m", "ragen_bench", "play", "FrozenLakeDeterministic", "--index", "0",
                  input="hint\nsideways\ndddddddddddd\nd\n\nquit\n")  # fmt: skip
    assert done.returncode == 0, done.stderr
    for part in ("best: ", "'sideways' is not an action", "at most 5", "Executed: Down", "stopped"):
        assert part in done.stdout, done.stdout
    assert not done.stderr


# --- playing -------------------------------------------------------------------------------------


def _play(monkeypatch, capsys, text, *arguments):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["play", *arguments]) == 0
    return capsys.readouterr().out


def test_following_the_hints_wins(monkeypatch, capsys):
    shown = _play(monkeypatch, capsys, "hint\n", "FrozenLakeDeterministic", "--index", "1")
    best = re.search(r"best: (.*)", shown)[1]
    shown = _play(monkeypatch, capsys, f"{best}\n", "FrozenLakeDeterministic", "--index", "1")
    assert "The game is over. You succeeded." in shown
    assert "return 1" in shown


@pytest.mark.parametrize("game", ["Bandit", "ragen/Bandit-v0", "ragen/BanditText-v0", "bandit"])
def test_a_game_is_known_by_all_its_names(game, monkeypatch, capsys):
    assert "Arms: " in _play(monkeypatch, capsys, "q\n", game, "--seed", "3")


def _played(out):
    return list(yaml.safe_load((out / "config.yaml").read_text())["suite"]["tasks"].items())


@pytest.mark.parametrize("game", ["Cube", "cube", "ragen/Cube-v0", "ragen/CubeText-v0"])
def test_a_game_that_the_suite_lacks_is_benched_by_all_its_names(game, tmp_path):
    words = ["bench", "--agent", "noop", "--episodes", "1", "--out", str(tmp_path / "run")]
    assert main([*words, "--game", game, "--game", "sokoban-new-vocab"]) == 0
    played = [(name, task["env"]) for name, task in _played(tmp_path / "run")]
    own = ("SokobanNewVocab", "ragen/SokobanNewVocabText-v0")
    assert played == [own, ("Cube", "ragen/CubeText-v0")]


def test_an_option_of_another_command_is_not_hinted_at(fails):
    assert "use" not in fails("match", "--on", "ray")


def test_the_same_seed_is_the_same_level(monkeypatch, capsys):
    first = _play(monkeypatch, capsys, "", "FrozenLake", "--seed", "3")
    assert first == _play(monkeypatch, capsys, "", "FrozenLake", "--seed", "3")
    assert first != _play(monkeypatch, capsys, "", "FrozenLake", "--seed", "4")


@pytest.mark.parametrize(
    ("line", "actions"),
    [
        ("Up", [0]),
        ("up || Left", [0, 2]),
        ("u", [0]),
        ("uurd", [0, 0, 3, 1]),
        ("u u r", [0, 0, 3]),
        ("r || uu", [3, 0, 0]),
        ("→", [3]),
        ("↑←", [0, 2]),
        ("dow", [1]),
    ],
)
def test_actions_can_be_written_in_short(line, actions):
    assert read_actions(line, ("Up", "Down", "Left", "Right")) == actions


@pytest.mark.parametrize("line", ["", "x", "Up ||", "north", "Up Down", "||"])
def test_what_is_no_action_is_refused(line):
    with pytest.raises(RagenError):
        read_actions(line, ("Up", "Down", "Left", "Right"))


def test_arms_are_written_by_name_or_beginning():
    names = ("Librarian", "Trader")
    assert read_actions("trader", names) == [1]
    assert read_actions("lib", names) == [0]
    with pytest.raises(RagenError):
        read_actions("Librarian Trader", names)


def test_an_extension_that_exits_is_an_error(fails, tmp_path):
    file = tmp_path / "leaving.py"
    file.write_text("import sys\nsys.exit(0)\n")
    assert "cannot be imported: SystemExit" in fails("--import", file, "games")


def test_code_in_a_model_folder_is_never_run(tiny, capsys, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    config |= {"model_type": "evil", "auto_map": names}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    for command in (
        ["bench", "--agent", folder, "--game", "Bandit", "--out", tmp_path / "run"],
        ["train", "bandit", f"model={folder}", "--out", tmp_path / "train"],
        ["sft", "bandit", f"model={folder}", "--out", tmp_path / "sft"],
    ):
        assert main([str(each) for each in command]) == 2
        error = [s for s in capsys.readouterr().err.splitlines() if s.startswith("error: ")]
        assert "be loaded" in error[0]
    assert not (tmp_path / "ran").exists()


WITHOUT_TORCH = """
import json
import sys
from importlib import util

MISSING = ("torch", "transformers", "accelerate", "peft")
found = util.find_spec


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


util.find_spec = lambda name, package=None: None if name in MISSING else found(name, package)
sys.meta_path.insert(0, Missing())
from ragen_bench.__main__ import main

for words in json.loads(sys.argv[1]):
    print("code", main(words), flush=True)
"""


def test_what_needs_no_torch_works_without_it(tmp_path):
    script, run, about = tmp_path / "main.py", tmp_path / "run", tmp_path / "about.yaml"
    script.write_text(WITHOUT_TORCH)
    about.write_text("name: mine\ntitle: Mine\nmodel: none\nauthors: me\ndescription: a test\n")

    commands = [
        ["bench", "--game", "Bandit", "--episodes", "2", "--out", run],
        ["show", run], ["explain", run], ["verify", run],
        ["submit", f"{run}:oracle", "--about", about, "--entries", tmp_path / "all"],
        ["train", "bandit"],
    ]  # fmt: skip
    done = python(script, json.dumps(commands, default=str))
    assert re.findall(r"^code (\d)$", done.stdout, re.MULTILINE) == ["0", "0", "0", "0", "2", "2"]
    told = done.stdout + done.stderr
    assert "note: skipping the starter model, which needs torch" in told
    assert "oracle" in told
    assert "contamination" in told  # the description is read, so all of it was imported
    assert "needs torch; install it with" in told


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("bench --game So", {"Sokoban", "SokobanLarge", "SokobanNewVocab"}),
        ("bench --agent o", {"oracle", "openai:"}),
        ("match --agent ran", {"random"}),
        ("match --game so", {"sokoban_coop"}),
        ("train froz", {"frozenlake", "frozenlakedeterministic"}),
        ("play cu", {"cube"}),
    ],
)
def test_the_shell_completes_games_and_agents(typed, found):
    asked = {"_RAGEN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"ragen {typed}"}
    (done,) = forked.run((["-m", "ragen_bench"], asked))
    assert set(re.findall(r'"([\w:]+)"', done.stdout.replace("\\", ""))) == found


@pytest.mark.parametrize("depth", [100, 400, 3000])
@pytest.mark.parametrize(
    "words",
    [
        ("bench", "--game", "Bandit", "--setting", "x={}"),
        (
            "bench",
            "--agent",
            "openai:m",
            "--base-url",
            "http://127.0.0.1:1/v1",
            "--extra-body",
            "{}",
        ),
        ("train", "bandit", "rollout={}"),
        ("train", "bandit", "env_kwargs.max_turns={}"),
    ],
)
def test_settings_that_are_nested_deeply_are_refused_in_one_line(words, depth, tmp_path, capsys):
    nested = "[" * depth + "]" * depth
    arguments = [word.replace("{}", nested) for word in words]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["bench", "train", "sft"])
def test_weights_that_were_cut_off_are_named(command, tiny, tmp_path, capsys):
    broken = tmp_path / "model"
    shutil.copytree(tiny, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-500])
    words = {
        "bench": ["bench", "--agent", str(broken), "--game", "Bandit", "--episodes", "1"],
        "train": ["train", "bandit", f"model={broken}", "iterations=1"],
        "sft": ["sft", "bandit", f"model={broken}", "demonstrations=2"],
    }[command]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "could not be loaded: " in capsys.readouterr().err


def test_a_model_saved_the_old_way_is_played(tiny, tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    old = tmp_path / "model"
    shutil.copytree(tiny, old)
    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    words = ["bench", "--agent", str(old), "--game", "Bandit", "--episodes", "1"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert len((tmp_path / "run/episodes.jsonl").read_text().splitlines()) == 1


def test_aliases_that_stand_for_gigabytes_are_read_in_no_time(tmp_path, capsys):
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    path = tmp_path / "suite.yaml"
    path.write_text("\n".join([*lines, "loop: &loop [*loop]"]))
    assert main(["bench", "--suite", str(path), "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
