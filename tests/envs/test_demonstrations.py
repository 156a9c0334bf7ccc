"""Worked examples before an episode: which are chosen, where the chat shows them, whether they are true."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ragen_envs.conversation import (
    format_reply,
    make,
    parse_reply,
)
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.mastermind import MastermindEnv
from ragen_envs.levels.instances import load_pack
from ragen_envs.levels.splits import TEST, TRAIN, VALIDATION
from ragen_envs.registration import text_ids

NEVER_IN_A_TURN = ("ragen/MastermindText-v0", "ragen/SudokuText-v0", "ragen/WebShopText-v0")
"""Games that no first turn ends in success, but by luck."""
SUITE = [name for name in text_ids() if name.startswith("ragen/")]
REPLY = "<think>hm</think><answer>Up</answer>"


def started(game, seed=0, **settings):
    env = make(game, **settings)
    env.reset(seed=seed)
    return env


@cache
def with_eight(game):
    """An env with eight examples, shared by tests that only read its messages and examples."""
    return started(game, demonstrations=8)


def replayed(game, env, example):
    """Play an example in its own level, under the same settings but without examples."""
    again = make(game, **{**env.settings.to_dict(), "demonstrations": 0})
    again.reset(seed=example.instance.seed, options={"split": example.instance.split})
    assert again.unwrapped.instance == example.instance
    assert again.user == example.user
    return again, again.play(example.reply)


@pytest.mark.slow
@pytest.mark.parametrize("game", SUITE)
@pytest.mark.parametrize("think", [True, False])
def test_examples_are_valid_replies_to_first_turns_and_solve_what_they_claim(game, think):
    env = with_eight(game) if think else started(game, demonstrations=5, think=False)
    for example in env.examples:
        again, result = replayed(game, env, example)
        assert result.parsed.is_valid
        assert result.parsed.thought.strip() if think else not result.parsed.thought
        assert again.success == example.solves
        assert (again.end is not None) or not example.solves
        if "Solved." in example.reply or "the goal" in example.reply:
            assert again.success
    if game not in NEVER_IN_A_TURN:
        assert sum(example.solves for example in env.examples) >= 0.8 * len(env.examples)
    assert len({example.instance.key for example in env.examples}) == (8 if think else 5)


@pytest.mark.slow
@pytest.mark.parametrize("game", SUITE)
def test_fewer_examples_are_the_first_of_more_in_every_episode(game):
    most, env = with_eight(game), make(game, demonstrations=2)
    for options in ({"split": "test", "index": 3}, {"split": "validation", "index": 0}):
        env.reset(options=options)
        told = [message["content"] for message in env.messages[1:5]]
        assert told == [message["content"] for message in most.messages[1:5]]
        roles = [message["role"] for message in env.messages]
        assert roles == ["system"] + ["user", "assistant"] * 2 + ["user"]


@pytest.mark.slow
@pytest.mark.parametrize("game", SUITE)
def test_examples_are_short_training_levels_that_begin_with_different_actions(game):
    env = with_eight(game)
    assert sum(len(message["content"]) for message in env.messages[1:-1]) < 8 * 900
    game_env = env.unwrapped
    packs = [load_pack(game_env.distribution, split) for split in (VALIDATION, TEST)]
    held_out = {game_env.key(entry.level) for pack in packs for entry in pack}
    for example in env.examples:
        assert example.instance.split == TRAIN
        assert int(example.instance.key, 16) not in held_out
    if isinstance(game_env, WordGameEnv):
        return  # every level has its own words
    fresh = make(game).unwrapped
    firsts = [
        parse_reply(example.reply, _names(fresh, example), 5, True).actions[0] for example in env.examples
    ]
    counts = np.bincount(firsts, minlength=2)
    if "Bandit" in game:
        assert counts.tolist() == [4, 4]
    else:
        assert max(counts) <= 3


def _names(game, example):
    game.reset(seed=example.instance.seed, options={"split": TRAIN})
    return game.text.actions(game)


@pytest.mark.slow
def test_processes_agree_whatever_the_hash_seed():
    source = (
        "import json, ragen_envs.conversation as c\n"
        "chats = []\n"
        "for game in ('Sokoban', 'Bandit', 'FrozenLake'):\n"
        "    env = c.make(f'ragen/{game}Text-v0', demonstrations=3)\n"
        "    env.reset(options={'split': 'test', 'index': 1})\n"
        "    chats.append(env.messages)\n"
        "print(json.dumps(chats))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )  # fmt: skip
    for game, chat in zip(("Sokoban", "Bandit", "FrozenLake"), json.loads(done.stdout), strict=True):
        env = make(f"ragen/{game}Text-v0", demonstrations=3)  # strings hash otherwise in this process
        env.reset(options={"split": "test", "index": 1})
        assert chat == env.messages


def test_the_episode_is_the_same_as_without_examples():
    plain = started("ragen/SokobanText-v0", 5)
    shown = started("ragen/SokobanText-v0", 5, demonstrations=2)
    for _ in range(3):
        assert shown.user == plain.user
        assert shown.system == plain.system
        assert shown.budget == plain.budget
        assert shown.play(REPLY) == plain.play(REPLY)


@pytest.mark.parametrize(("history", "kept"), [("full", 3), ("last", 2), ("none", 0)])
def test_every_history_keeps_the_examples(history, kept):
    env = started("ragen/SokobanText-v0", demonstrations=2, history=history, history_turns=2)
    first = env.messages
    for _ in range(3):
        env.play(REPLY)
    chat = env.messages
    assert chat[:5] == first[:5]
    assert len(chat) == 5 + 2 * kept + 1
    notice = "The example ends here. Now play your own level.\n\n"
    assert [notice in message["content"] for message in chat] == [i == 5 for i in range(len(chat))]
    assert chat[-1]["content"].removeprefix(notice) == env.user


def test_reset_returns_the_whole_prompt():
    env = make("ragen/SokobanText-v0", demonstrations=2)
    text, _ = env.reset(seed=1)
    assert text == "\n\n".join(message["content"] for message in env.messages)
    assert env.examples[1].reply in text


def test_examples_follow_the_settings_of_the_conversation():
    env = started(
        "ragen/SokobanText-v0", demonstrations=2, symbols="new_vocab", observation="both",
        actions_per_turn=1, max_actions=3,
    )  # fmt: skip
    for example in env.examples:
        assert "(" in example.user
        assert "W" in example.user
        assert "#" not in example.user
        assert "||" not in example.reply
        assert "Limit for this turn: 1" in example.reply


def test_pictures_belong_to_the_user_messages():
    env = started(
        "ragen/FrozenLakeDeterministicText-v0",
        demonstrations=2,
        observation="image",
        history="last",
    )
    for _ in range(3):
        users = [message for message in env.messages if message["role"] == "user"]
        assert len(env.pictures) == len(users)
        assert np.array_equal(env.pictures[-1], env.unwrapped.render())
        env.play("<think>hm</think><answer>Left</answer>")
    game = FrozenLakeEnv(success_rate=1.0, render_mode="rgb_array")
    for example, picture in zip(env.examples, env.pictures, strict=False):
        game.reset(seed=example.instance.seed)
        assert np.array_equal(picture, game.render())


@pytest.mark.parametrize("name", ["Sokoban", "FrozenLakeDeterministic", "Bandit", "Cube"])
def test_a_fixed_level_is_never_its_own_example(name):
    game = f"ragen/{name}Text-v0"
    shown = started(game, demonstrations=1).examples[0].instance
    env = started(game, demonstrations=1, level=shown.level.split("/"))
    assert env.unwrapped.instance.level == shown.level
    assert env.examples[0].instance.key != shown.key
    assert env.examples[0].instance.distribution == shown.distribution


def test_games_that_differ_have_examples_of_their_own():
    small = started("ragen/SokobanText-v0", demonstrations=1)
    large = started("ragen/SokobanText-v0", demonstrations=1, size=7)
    assert large.examples[0].instance.distribution != small.examples[0].instance.distribution
    risky = started("ragen/BanditText-v0", demonstrations=1).examples[0]
    safe = started("ragen/BanditRevText-v0", demonstrations=1).examples[0]
    assert (risky.user, risky.reply) != (safe.user, safe.reply)


def test_games_of_other_packages_show_their_plan(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    import lights_out  # noqa: F401

    env = started("mine/LightsOutText-v0", demonstrations=3, max_actions=10)
    assert all("<think>My plan: " in example.reply for example in env.examples)
    assert all(example.solves for example in env.examples)


def test_an_oracle_of_another_package_keeps_the_budget(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    import lights_out  # noqa: F401

    for seed in range(30):
        env = started("mine/LightsOutText-v0", seed, actions_per_turn=3, max_actions=7, think=False)
        done = False
        while not done and (actions := env.oracle().actions):
            result = env.play(format_reply(action_texts(env.names, actions), None))
            assert result.penalty == 0
            done = result.end is not None


@pytest.mark.parametrize("value", [-1, 17, 1.0, "2", True, None])
def test_a_wrong_number_is_refused(value):
    with pytest.raises(RagenError, match=r"demonstrations is .* integer from 0 to 16"):
        make("ragen/SokobanText-v0", demonstrations=value)


def test_a_level_whose_size_has_no_others_is_refused():
    level = ["#####", "#PXO#", "#####"]
    assert started("ragen/SokobanText-v0", level=level).play(REPLY).end is None
    with pytest.raises(RagenError, match=r"demonstrations is 1, but .* gives no worked examples"):
        started("ragen/SokobanText-v0", level=level, demonstrations=1)


@pytest.mark.slow
def test_only_the_levels_that_are_shown_are_drawn(monkeypatch):
    drawn = []
    draw = MastermindEnv.picture

    def counted(self):
        drawn.append(self.instance.level)
        return draw(self)

    monkeypatch.setattr(MastermindEnv, "picture", counted)
    env = started("ragen/MastermindText-v0", observation="image", demonstrations=2, max_turns=9)
    shown = [example.instance.level for example in env.examples]
    assert sorted(drawn) == sorted([*shown, env.unwrapped.instance.level])
    for example in env.examples:
        game = MastermindEnv(render_mode="rgb_array")
        game.reset(seed=example.instance.seed, options={"split": TRAIN})
        assert np.array_equal(example.picture, draw(game))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "level", "distribution"),
    [
        ("Sudoku", ["1_3_", "__12", "21__", "_3_1"], "sudoku-8"),
        ("Countdown", "60: 3 7 8 25 4", "countdown-5"),
        ("Minesweeper", ["o....", ".....", "****.", ".....", "....."], "minesweeper-5x5-4"),
    ],
)
def test_examples_of_a_fixed_level_have_its_size(name, level, distribution):
    env = started(f"ragen/{name}Text-v0", level=level, demonstrations=1)
    example = env.examples[0].instance
    assert env.unwrapped.instance.distribution == example.distribution == distribution
    if name == "Countdown":
        assert len(example.level.split()) == len(level.split())
    else:
        sign = "_" if name == "Sudoku" else "*"
        assert example.level.count(sign) == "".join(level).count(sign)


@pytest.mark.parametrize(
    ("name", "level", "distribution"),
    [
        ("Sudoku", ["1234", "3412", "2143", "432_"], "sudoku-6"),
        ("Countdown", "10: 3 7", "countdown-4"),
        ("Countdown", "60: 3 7 8 25 4 1", "countdown-4"),
    ],
)
def test_a_size_that_is_never_drawn_names_no_distribution(name, level, distribution):
    env = started(f"ragen/{name}Text-v0", level=level)
    assert env.unwrapped.instance.distribution == distribution
