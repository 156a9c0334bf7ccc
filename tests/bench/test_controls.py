"""Games that are controls of others are said to be, wherever scores are shown."""

import json

import gymnasium as gym
import pytest
from ragen_bench.__main__ import main
from ragen_bench.config.suites import Task, control_notes, controls_of, load_suite

from ragen_envs import GameSpec, register_game, registration
from ragen_envs.registration import spec_of

RESULT = "the prompts are those of Bandit, but the opposite answers are right"


def test_the_core_suite_has_two_controls():
    tasks = load_suite("core").tasks
    assert controls_of(tasks) == {"BanditRev": "Bandit", "BanditTrap": "Bandit"}
    (note,) = control_notes(tasks)
    assert note.startswith(f"BanditRev and BanditTrap: {RESULT}")


@pytest.mark.parametrize(("game", "shown"), [("BanditTrap", True), ("Bandit", False)])
def test_the_table_of_a_run_says_so(game, shown, tmp_path, capsys):
    command = ["bench", "--agent", "noop", "--game", game, "--episodes", "4"]
    assert main([*command, "--out", str(tmp_path / "run"), "--format", "json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(RESULT in note for note in notes) == shown


def test_a_game_from_outside_declares_it(monkeypatch):
    monkeypatch.setattr(registration, "_added", dict(registration._added))
    game = GameSpec(
        "Opposite", "ragen_envs.games.bandit:BanditEnv", "a test", namespace="controls",
        kwargs={"gamble": "sounds_safe"}, control_of="Mine",
    )  # fmt: skip
    register_game(game)
    try:
        assert spec_of(game.text_id) is game
        assert controls_of({"x": Task(env=game.text_id)}) == {"x": "Mine"}
    finally:
        for game_id in (game.id, game.text_id):
            gym.registry.pop(game_id)


def test_ids_without_a_spec_are_no_controls():
    assert spec_of("CartPole-v1") is None
    assert controls_of({"NewVocab": Task(env="ragen/SokobanNewVocabText-v0")}) == {}
