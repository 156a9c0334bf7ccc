"""Environments of Gymnasium without a text face in the harness: scored, verified, shown, compared."""

import json
import random
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import ragen_bench as rb
from ragen_bench.__main__ import main
from ragen_bench.config import extensions
from ragen_bench.config.agents import default_agents
from ragen_bench.config.suites import Task

from ragen_envs.adapters.trl_tools import GameTools
from ragen_envs.registration import text_ids

FILE = '''
import random
import gymnasium as gym
from ragen_envs import register_text


class Walk(gym.Env):
    """Walk to house 7."""

    metadata = {"render_modes": []}
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Discrete(13)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.house = START
        return self.house, {}

    def step(self, action):
        self.house += 1 if action else -1
        return self.house, -1.0, self.house == 7, not 1 <= self.house <= 12, {}


gym.register("mine/Walk-v0", entry_point=Walk)
register_text("mine/WalkText-v0", "mine/Walk-v0", actions=["down", "up"], success=-9, max_turns=4)
'''
SEEDED, UNSEEDED = "int(self.np_random.integers(1, 13))", "random.randint(1, 12)"


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """Write the environment with a start, and return what imports it; afterwards it is forgotten."""
    before = dict(gym.registry)
    monkeypatch.setattr(extensions, "_imported", [])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(start=SEEDED):
        (tmp_path / "walk_env.py").write_text(FILE.replace("START", start))
        return "--import", "walk_env.py"

    yield write
    gym.registry.clear()
    gym.registry.update(before)
    sys.modules.pop("walk_env", None)


def bench(*more, episodes=12):
    assert main([*more, "--episodes", str(episodes), "--out", "run"]) == 0


def rows(capsys, *command):
    capsys.readouterr()
    assert main([*command, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_environment_of_ones_own(walk, capsys):
    given = walk()
    played = [*given, "bench", "--game", "mine/WalkText-v0", "--agent", "random"]
    assert main([*played, "--agent", "oracle", "--out", "run"]) == 2
    assert "agent 'oracle' cannot play, as no game here has an oracle" in capsys.readouterr().err
    assert "oracle" not in default_agents({"walk": Task(env="mine/WalkText-v0")})
    bench(*played)
    shown = rows(capsys, "show", "run")
    (random_row,) = shown["rows"]
    assert 0 < random_row["success"] < 1
    assert random_row["score"] is None
    (note,) = [note for note in shown["notes"] if "no optimum" in note]
    assert "it has no oracle" in note
    assert not any("the score 0 of" in note for note in shown["notes"])
    assert main(["verify", "run"]) == 0
    assert main(["view", "run", "--out", "pages"]) == 0
    assert "mine/WalkText-v0" in text_ids()
    line = Path("run/episodes.jsonl").read_text().splitlines()[0]
    assert "has_success" not in line
    assert json.loads(line)["instance"]["level"].startswith("seed ")


def test_episodes_without_a_step_are_failures_where_others_know_success(walk, capsys):
    text = FILE.replace("12, {}", "12, {'success': self.house == 7}").replace("success=-9, ", "")
    Path("walk_env.py").write_text(text.replace("START", SEEDED))
    Path("mute_agent.py").write_text("def mute(request):\n    return 'I do not know'\n")
    agents = ["--agent", "random", "--agent", "mute_agent:mute"]
    bench("--import", "walk_env.py", "bench", "--game", "mine/WalkText-v0", *agents)
    shown = rows(capsys, "show", "run")
    random_row, mute_row = shown["rows"]
    assert not any("demonstrations" in note for note in shown["notes"])
    assert mute_row["success"] == 0
    rates = rb.load("run").episodes().groupby("agent")["success"].mean()
    assert rates["mute_agent:mute"] == 0
    assert rates["random"] == random_row["success"]


def test_an_environment_without_seeds_is_told_from_a_changed_record(walk, capsys):
    given = walk(UNSEEDED)
    random.seed(0)
    bench(*given, "bench", "--game", "mine/WalkText-v0", "--agent", "random")
    assert main(["verify", "run"]) == 1
    assert "is not deterministic under a seed" in capsys.readouterr().err


def test_a_changed_record_of_an_environment_is_found(walk, capsys):
    bench(*walk(), "bench", "--game", "mine/WalkText-v0", "--agent", "random")
    record = Path("run/episodes.jsonl")
    record.write_text(record.read_text().replace('"rewards":[-1.0', '"rewards":[1.0', 1))
    assert main(["verify", "run"]) == 1
    error = capsys.readouterr().err
    assert "turn 1, rewards" in error
    assert "deterministic" not in error


def test_any_registered_id_can_be_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    actions = "actions=[up, right, down, left]"
    words = [
        "--setting",
        actions,
        "--setting",
        "max_turns=3",
        "--agent",
        "random",
        "--agent",
        "noop",
    ]
    bench("bench", "--game", "CliffWalking-v1", *words)
    first, second = rows(capsys, "show", "run")["rows"]
    assert first["success"] is first["success_low"] is None
    assert second["mean_return"] == pytest.approx(-0.3)
    assert main(["verify", "run"]) == 0
    compared = rows(capsys, "compare", "run:random", "run:noop")["rows"]
    assert [row["measure"] for row in compared] == ["return"]
    assert main(["compare", "run:random", "run:noop"]) == 0
    assert main(["view", "run", "--out", "pages"]) == 0


def test_an_environment_may_take_keywords_that_it_does_not_name(walk, tmp_path):
    given = walk("self.first")
    signature = "    def __init__(self, **keywords):\n        self.first = keywords['first']\n\n"
    source = (tmp_path / "walk_env.py").read_text()
    (tmp_path / "walk_env.py").write_text(source.replace("    def reset", f"{signature}    def reset", 1))
    bench(
        *given, "bench", "--game", "mine/WalkText-v0", "--agent", "random", "--setting", "first=6", episodes=2
    )


def test_wrong_names_are_explained(capsys):
    assert main(["bench", "--game", "CliffWalking-v1", "--agent", "random", "--setting", "colour=1"]) == 2
    error = capsys.readouterr().err
    assert "CliffWalking-v1 has no setting 'colour'; known are max_turns" in error
    assert "actions, describe, rules, success" in error


def test_tools_of_trl_play_it():
    tools = GameTools("Taxi-v4", max_turns=2)
    text = tools.reset(seed=1)
    assert "Actions: Move south (down), " in text
    assert "Turn 2 of 2." in tools.act("Drop off passenger")
    assert tools.get_reward() == -10


def test_explain_shows_no_success_where_none_is_defined(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench("bench", "--game", "Blackjack-v1", "--agent", "random", episodes=4)
    (row,) = rows(capsys, "explain", "run")["rows"]
    assert row["success"] is None
