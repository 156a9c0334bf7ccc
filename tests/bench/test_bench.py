"""`ragen bench`: run directories, resuming, tables."""

import csv
import io
import json
import math
import re
import shutil
import tracemalloc
from pathlib import Path

import pytest
import yaml
from bench_runs import CONTROLS, GAMES, bench, count_lines, options, python, timeless
from endpoint_server import EndpointServer
from ragen_bench.__main__ import main
from ragen_bench.config import agents
from ragen_bench.config.run_config import load_config
from ragen_bench.evaluation import runner
from ragen_bench.evaluation.run_table import read_run, summarise
from ragen_bench.runs.checksums import read_checksums
from ragen_bench.runs.records import read_records
from ragen_bench.stats.intervals import wilson
from scripted_policy import ScriptedPolicy

from ragen_agents.rollout import Episode

RESULTS = Path(__file__).parents[2] / "benchmarks/results"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny model with random weights."""
    torch = pytest.importorskip("torch")
    from ragen_agents.starter.blank import build_word_tokenizer, new_model

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(0)
    tokenizer = build_word_tokenizer(["Pull one arm, once, by its name.", "Walk to the goal."])
    new_model(tokenizer, 32, 1, 32, heads=2, kv_heads=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def suite_file(folder, **changes):
    task = {"env": "ragen/BanditText-v0"}
    suite = {"name": "mine", "version": 3, "episodes": 5, "tasks": {"B": task}, **changes}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(suite, sort_keys=False))
    return path


# --- the run directory ---------------------------------------------------------------------------


def test_a_run_directory_holds_all_that_was_run(finished):
    config = load_config(finished)
    assert [agent.name for agent in config.agents] == list(CONTROLS)
    assert tuple(config.suite.tasks) == GAMES
    assert config.suite.episodes == 40
    episodes = read_records(finished / "episodes.jsonl", Episode).episodes
    assert [(e.agent, e.task, e.instance.index) for e in episodes] == [
        (a, g, i) for a in CONTROLS for g in GAMES for i in range(40)
    ]
    environment = json.loads((finished / "environment.json").read_text())
    assert {"packages", "python", "platform", "cpu_count", "git_commit"} <= set(environment)
    assert "numpy" in environment["packages"]
    assert len(read_checksums(finished)) == len(episodes)


def test_the_default_directory_depends_on_the_config_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--agent", "random", "--game", "Bandit", "--episodes", "2"]
    assert main(command) == main(command) == main([*command, "--seed", "5"]) == 0
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all(name.startswith("core-random-") for name in folders)


def test_a_finished_run_is_not_played_again(run, monkeypatch):
    before = (run / "episodes.jsonl").read_bytes()
    monkeypatch.setattr(runner, "play_batch", None)
    monkeypatch.setattr(agents, "make_policy", None)
    bench(run, episodes=40)
    assert (run / "episodes.jsonl").read_bytes() == before


@pytest.mark.slow
def test_controls_do_not_load_torch(tmp_path):
    program = (
        "import sys; from ragen_bench.__main__ import main; assert main(sys.argv[1:]) == 0; "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = python("-c", program, *options(tmp_path / "run", episodes=2))
    assert done.returncode == 0, done.stderr


def test_the_seed_changes_draws_but_no_level(run, tmp_path):
    other = bench(tmp_path / "other", "--seed", "1", episodes=40, agents=("random",))
    first = [e for e in timeless(run) if e["agent"] == "random"]
    second = timeless(other)
    assert [e["instance"] for e in first] == [e["instance"] for e in second]
    assert [e["turns"] for e in first] != [e["turns"] for e in second]


def test_fewer_episodes_are_the_first_ones(run, tmp_path):
    few = timeless(bench(tmp_path / "few", episodes=3))
    assert few == [e for e in timeless(run) if e["instance"]["index"] < 3]


@pytest.mark.parametrize("game", ["Minesweeper", "Mastermind"])
def test_a_game_without_an_optimum_is_played(game, tmp_path, capsys):
    limits = ["--setting", f"actions_per_turn={1 if game == 'Minesweeper' else 2}"]
    limits += ["--setting", f"max_turns={10 if game == 'Minesweeper' else 2}"]
    command = ["bench", "--game", game, "--episodes", "16", "--agent", "random", *limits]
    out = ["--out", str(tmp_path / "run")]
    assert main([*command, *out]) == 0
    assert f"no optimum and no score of {game}" in " ".join(capsys.readouterr().out.split())
    row = summarise(read_run(tmp_path / "run")).iloc[0]
    assert row["n"] == 16
    assert math.isnan(row["optimal_success"])
    assert math.isnan(row["score"])
    assert main(["verify", str(tmp_path / "run")]) == 0


# --- the table -----------------------------------------------------------------------------------


def test_the_table_says_what_the_episodes_say(run):
    table = summarise(read_run(run)).set_index(["game", "agent"])
    for (game, agent), row in table.iterrows():
        episodes = [e for e in timeless(run) if (e["task"], e["agent"]) == (game, agent)]
        turns = [turn for e in episodes for turn in e["turns"]]
        hits = [hit for turn in turns for hit in turn["effective"]]
        wins = sum(e["success"] for e in episodes)
        assert row["n"] == 40
        found = (row["success"], row["success_low"], row["success_high"])
        if game == "Bandit":  # levels of the lake repeat, which widens its intervals
            assert found == wilson(wins, 40)
        assert found[0] == wins / 40
        mean = sum(e["episode_return"] for e in episodes) / 40
        assert row["mean_return"] == pytest.approx(mean)
        assert row["valid"] == sum(not turn["defects"] for turn in turns) / len(turns)
        assert row["turns"] == len(turns) / 40
        assert math.isnan(row["reply_tokens"])
        assert row["errors"] == 0
        for name in ("random_success", "random_return", "optimal_success", "optimal_return"):
            assert row[name] == pytest.approx(sum(e[name] for e in episodes) / 40)
        if hits:
            assert row["effective"] == sum(hits) / len(hits)
    for game in GAMES:
        sampled = table.loc[(game, "random")]
        gap = sampled["optimal_success"] - sampled["random_success"]
        surplus = sampled["success"] - sampled["random_success"]
        assert sampled["score"] == pytest.approx(100 * surplus / gap)
        assert sampled["score_low"] <= 0 <= sampled["score_high"]
        assert table.loc[(game, "oracle"), "score"] == pytest.approx(100)
        assert table.loc[(game, "noop"), "success"] == 0
        assert table.loc[(game, "noop"), "score"] < 0
        assert math.isnan(table.loc[(game, "noop"), "effective"])


def test_a_score_needs_no_random_agent(tmp_path, capsys):
    bench(tmp_path / "run", agents=("oracle",))
    printed = capsys.readouterr().out
    assert "note: no score" not in printed
    assert "random (exact)" in printed
    assert "optimum (exact)" in printed
    assert summarise(read_run(tmp_path / "run"))["score"].notna().all()


def without_exact_chance(folder):
    """Rewrite a run as if exact random play were not available."""
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    for line in lines:
        line.update(random_success=None, random_return=None)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "episodes.jsonl").write_text(text)
    (folder / "episodes.sha256").unlink(missing_ok=True)


def test_the_random_agent_stands_in_where_its_chance_is_not_known(tmp_path, capsys):
    bench(tmp_path / "run", agents=("random", "oracle"))
    without_exact_chance(tmp_path / "run")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "is the sampled success of the agent 'random'" in printed
    assert "random (exact)" not in printed
    assert "optimum (exact)" in printed
    table = summarise(read_run(tmp_path / "run")).set_index(["game", "agent"])
    assert all(table.loc[(game, "random"), "score"] == 0 for game in table.index.levels[0])
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines(keepends=True)
    oracle = [line for line in lines if json.loads(line)["agent"] == "oracle"]
    for first, said in (
        ([], "the agent 'random' has not played it yet"),
        (lines[:2], "scores are of those that it has played"),
    ):
        (tmp_path / "run" / "episodes.jsonl").write_text("".join([*first, *oracle]))
        (tmp_path / "run" / "episodes.sha256").unlink(missing_ok=True)
        capsys.readouterr()
        assert main(["show", str(tmp_path / "run"), "--format", "json"]) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert any(note.endswith(said) for note in notes)
        assert not any("add the agent" in note for note in notes)
    bench(tmp_path / "alone", agents=("oracle",))
    without_exact_chance(tmp_path / "alone")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "alone")]) == 0
    assert "add the agent 'random'" in capsys.readouterr().out
    assert summarise(read_run(tmp_path / "alone"))["score"].isna().all()


def test_an_unfinished_run_says_so(run, capsys):
    lines = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(lines[:100]))
    (run / "episodes.sha256").unlink(missing_ok=True)
    assert main(["show", str(run)]) == 0
    assert "140 of 240 episodes missing" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["show"], ["explain"], ["view", "--out", "site"]])
def test_an_episode_of_another_run_does_not_stand_in_for_a_missing_one(command, run, fails):
    *lines, last = (run / "episodes.jsonl").read_text().splitlines()
    changed = json.loads(last)
    changed["instance"]["index"] = 40
    lines.append(json.dumps(changed))
    (run / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (run / "episodes.sha256").unlink(missing_ok=True)
    assert "line 240 is not of this run" in fails(*command, run)


def test_what_is_shown_does_not_depend_on_the_order_in_which_episodes_were_finished(run, capsys):
    def shown():
        assert main(["show", str(run), "--format", "json"]) == 0
        return capsys.readouterr().out

    lines = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for line in lines:
        line.update(end="error", error="RuntimeError: no")
    before = ""
    for order in (lines, lines[::-1]):
        text = "".join(json.dumps(line) + "\n" for line in order)
        (run / "episodes.jsonl").write_text(text)
        (run / "episodes.sha256").unlink(missing_ok=True)
        before = before or shown()
    assert shown() == before


def test_formats(run, capsys):
    shown = {}
    for style in ("table", "markdown", "csv", "json"):
        assert main(["show", str(run), "--format", style]) == 0
        shown[style] = capsys.readouterr().out
    rows = json.loads(shown["json"])["rows"]
    assert [(row["game"], row["agent"]) for row in rows] == [(g, a) for g in GAMES for a in CONTROLS]
    table = list(csv.DictReader(io.StringIO(shown["csv"])))
    assert [float(row["success"]) for row in table] == [row["success"] for row in rows]
    assert shown["markdown"].count("\n| Bandit | ") == 5
    assert "\n| Bandit | random (exact) | 40 | 50.0 | 0.20 | 0.0 |" in shown["markdown"]
    assert "\n| Bandit | optimum (exact) | 40 | 100.0 | 0.25 | 100.0 |" in shown["markdown"]
    rows = [line for line in shown["markdown"].splitlines() if "|" in line]
    assert {line.count("|") for line in rows} == {12}
    assert all(name in shown["table"] for name in (*GAMES, *CONTROLS))
    assert "…" not in shown["table"]


def test_a_narrow_terminal_shows_what_fits_and_says_what_it_leaves_out(run, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["show", str(run)]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in (*GAMES, *CONTROLS, "[95% CI]", "score"))
    assert "left out at 80 columns: s per episode, tokens" in shown
    assert main(["show", str(run), "--wide"]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "tokens" in shown
    assert "left out" not in shown


@pytest.mark.parametrize("command", [["games"], ["reproduce", "figure10", "--no-run"]])
def test_other_tables_fit_a_narrow_terminal_too(command, capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RESULTS, tmp_path / "benchmarks/results")
    assert main(command) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("split=train", "unknown setting 'split'"),
        ("format_penalty=.nan", "format_penalty"),
        ("when=2020-01-01", "when"),
        ("symbols=[1", "symbols is '[1', which is not valid YAML"),
        ("symbols=2024-13-45", "symbols is '2024-13-45', which is not valid YAML"),
        ("symbols=!!bool x", "symbols is '!!bool x', which is not valid YAML"),
    ],
)
def test_a_wrong_setting_is_one_line(setting, told, tmp_path, capsys):
    words = ["bench", "--agent", "random", "--game", "Sokoban", "--setting", setting]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert told in error
    assert not (tmp_path / "run").exists()


# --- agents --------------------------------------------------------------------------------------


def test_reading_a_long_run_takes_little_memory(tmp_path):
    """Texts that episodes share are kept once, and no record has bookkeeping of its own."""
    run = bench(tmp_path / "run", agents=["random"], games=["FrozenLakeDeterministic"], episodes=64)
    path = run / "episodes.jsonl"
    read_records(path, Episode)
    tracemalloc.start()
    found = read_records(path, Episode)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len({id(episode.system) for episode in found.episodes}) == 1
    assert size < 2.5 * path.stat().st_size


def test_an_agent_that_raises_leaves_records(tmp_path, monkeypatch, capsys):
    def fail(_):
        raise RuntimeError("no reply today")

    monkeypatch.setattr(agents, "make_policy", lambda name, _: ScriptedPolicy(name, fail))
    bench(tmp_path / "run", agents=("hf:broken/model",))
    episodes = read_records(tmp_path / "run" / "episodes.jsonl", Episode).episodes
    assert {e.end for e in episodes} == {"error"}
    assert episodes[0].error == "RuntimeError: no reply today"
    assert "errors" in capsys.readouterr().out
    assert summarise(read_run(tmp_path / "run"))["errors"].tolist() == [6, 6]
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_game_that_breaks_leaves_a_record(tmp_path, monkeypatch):
    from ragen_envs.games.bandit.env import BanditEnv

    real = BanditEnv.act

    def act(self, action):
        if self.instance.index == 2:
            raise ZeroDivisionError("a broken rule")
        return real(self, action)

    monkeypatch.setattr(BanditEnv, "act", act)
    bench(tmp_path / "run", agents=("random",))
    episodes = read_records(tmp_path / "run" / "episodes.jsonl", Episode).episodes
    broken = [e for e in episodes if e.end == "error"]
    assert [(e.error, e.success, e.turns) for e in broken] == [
        (
            "GameError: BanditEnv.act raised ZeroDivisionError: a broken rule; see docs/add-a-game.md",
            False,
            (),
        )
    ]
    assert len(episodes) == 12
    assert main(["verify", str(tmp_path / "run")]) == 0
    monkeypatch.undo()
    assert main(["verify", str(tmp_path / "run")]) == 1


def test_a_model_folder_is_an_agent(model, tmp_path):
    suite = suite_file(tmp_path, sampling={"temperature": 1.0, "max_tokens": 12})
    out = tmp_path / "run"
    command = ["bench", "--suite", str(suite), "--agent", "random", "--agent", f"{model}/"]
    assert main([*command, "--out", str(out)]) == 0
    expected = timeless(out)
    ours = [e for e in expected if e["agent"] == str(model)]
    assert len(ours) == 5
    assert all(0 < turn["reply_tokens"] <= 12 for e in ours for turn in e["turns"])
    assert len({turn["reply"] for e in ours for turn in e["turns"]}) > 1
    assert main(["verify", str(out)]) == 0

    path = out / "episodes.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    (out / "episodes.sha256").unlink()
    assert main([*command, "--out", str(out)]) == 0
    assert timeless(out) == expected


def test_other_weights_are_another_run(model, tmp_path, capsys):
    suite = suite_file(tmp_path, episodes=1, sampling={"max_tokens": 2})
    changed = Path(shutil.copytree(model, tmp_path / "model"))
    command = ["bench", "--suite", str(suite), "--agent", str(changed)]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    weights = changed / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    assert "weights" in capsys.readouterr().err


def test_prompts_that_outgrow_the_model_are_records(model, tmp_path):
    suite = suite_file(tmp_path, sampling={"max_tokens": 2047})
    command = ["bench", "--suite", str(suite), "--agent", str(model)]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert {e["end"] for e in timeless(tmp_path / "run")} == {"overflow"}
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_suite_of_ones_own(tmp_path):
    tasks = {
        "Blind": {
            "env": "ragen/FrozenLakeText-v0",
            "settings": {"history": "none", "think": False, "max_turns": 3, "success_rate": 0.8},
        }
    }
    suite = suite_file(tmp_path, tasks=tasks, split="validation")
    out = tmp_path / "run"
    command = ["bench", "--suite", str(suite), "--agent", "random", "--agent", "oracle"]
    assert main([*command, "--out", str(out)]) == 0
    episodes = timeless(out)
    assert {e["instance"]["split"] for e in episodes} == {"validation"}
    assert episodes[0]["env_kwargs"] == tasks["Blind"]["settings"]
    assert "0.8" in episodes[0]["system"]
    assert main(["verify", str(out)]) == 0


def test_a_run_without_an_episode_is_replaced(tmp_path, monkeypatch, fails, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    out, nowhere = tmp_path / "run", "http://127.0.0.1:1/v1"
    words = [*options(out, 4, ["openai:m"], ["Bandit"]), "--base-url"]
    assert main([*words, nowhere]) == 2
    assert "cannot be reached" in capsys.readouterr().err
    assert count_lines(out) == 0
    with EndpointServer() as server:
        assert main([*words, server.url]) == 0
        found = fails(*words, server.url, "--extra-body", '{"top_p": 0.5}')
        assert "agents[0].endpoint.extra_body.top_p is not set there and 0.5 now" in found
    assert load_config(out).agents[0].endpoint.base_url == server.url
    assert main(["verify", str(out)]) == 0


def test_a_directory_of_another_kind_is_not_replaced(tmp_path, fails):
    (tmp_path / "config.yaml").write_text("model: mine\n")
    fails(*options(tmp_path))
    assert (tmp_path / "config.yaml").read_text() == "model: mine\n"
