import re

import gymnasium as gym
import numpy as np
import pytest
from replies import TEXTS, say

from ragen_envs.conversation import (
    ConversationWrapper,
    FreeText,
    format_reply,
)
from ragen_envs.conversation.parser import MAX_REPLY_CHARACTERS
from ragen_envs.frozen_lake import FrozenLakeEnv
from ragen_envs.registration import GAMES
from ragen_envs.sokoban import SokobanEnv


def coordinates(text):
    """Read (row, column) places back from a description."""
    found = {}
    for line in text.splitlines():
        name, colon, places = line.partition(": ")
        if colon:
            found[name] = {(int(r), int(c)) for r, c in re.findall(r"\((\d+), (\d+)\)", places)}
    return found


def where(board, *codes):
    return {tuple(map(int, cell)) for cell in np.argwhere(np.isin(board, codes))}


def random_walk(env, seeds):
    rng = np.random.default_rng(1)
    for seed in range(seeds):
        env.reset(seed=seed)
        yield env.unwrapped.board, env.state_text()
        while env.end is None:
            env.play(format_reply([env.names[rng.integers(4)]], ""))
            yield env.unwrapped.board, env.state_text()


@pytest.mark.parametrize("size", [6, (5, 9)])
def test_sokoban_coordinates(size):
    env = ConversationWrapper(
        SokobanEnv(size=size, boxes=2), observation="coordinates", max_turns=15, max_actions=15
    )
    for board, text in random_walk(env, 12):
        height, width = board.shape
        assert text.startswith(f"The board has {height} rows and {width} columns. ")
        inner = {(r, c) for r, c in where(board, 0) if 0 < r < height - 1 and 0 < c < width - 1}
        assert coordinates(text) == {
            "player": where(board, 5, 6),
            "boxes": where(board, 3, 4),
            "targets": where(board, 2, 3, 6),
            "inner walls": inner,
        }
        assert ("inner walls: none" in text) == (not inner)
    assert "Symbols" not in env.system


def test_lake_coordinates():
    env = ConversationWrapper(
        FrozenLakeEnv(size=(4, 6), p=0.6), observation="coordinates", max_turns=10
    )
    for board, text in random_walk(env, 25):
        assert text.startswith("The board has 4 rows and 6 columns. ")
        assert coordinates(text) == {
            "player": where(board, 3, 4, 5),
            "goal": where(board, 2, 5),
            "holes": where(board, 1, 4),
        }


@pytest.mark.parametrize("env_id", ["ragen/SokobanText-v0", "ragen/FrozenLakeText-v0"])
def test_both_formats(env_id):
    texts = {}
    for form in ("grid", "coordinates", "both"):
        env = gym.make(env_id, observation=form)
        prompt, _ = env.reset(seed=2)
        texts[form] = env.get_wrapper_attr("state_text")()
        assert prompt.endswith(texts[form])
        assert ("Symbols: " in prompt) == (form != "coordinates")
    assert texts["both"] == f"{texts['grid']}\n{texts['coordinates']}"


@pytest.mark.parametrize("env_id", TEXTS)
def test_prompts_name_actions_and_rewards(env_id):
    env = gym.make(env_id)
    prompt, _ = env.reset(seed=0)
    names = env.get_wrapper_attr("names")
    assert f"Actions: {', '.join(names)}." in prompt
    assert "Rewards: " in prompt
    assert "<answer>" in prompt


def test_rules_state_the_settings_of_the_game():
    told = ConversationWrapper(SokobanEnv(reward="sparse"))
    told.reset(seed=0)
    assert "0 for each action" in told.system
    assert "1 when all boxes" in told.system
    shaped = ConversationWrapper(SokobanEnv(reward="shaped"))
    shaped.reset(seed=0)
    assert "0.25 for each cell" in shaped.system
    wet, dry = (
        ConversationWrapper(FrozenLakeEnv()),
        ConversationWrapper(FrozenLakeEnv(success_rate=1)),
    )
    wet.reset(seed=0)
    dry.reset(seed=0)
    assert "probability 0.33" in wet.system
    assert "not slippery" in dry.system


def test_free_text():
    space = FreeText(10)
    assert all(text in space for text in ("", "√", "\0" * 10, "\ud800"))
    assert not any(thing in space for thing in ("x" * 11, None, 3, b"x"))
    space.seed(1)
    assert space.sample() in space
    assert space == FreeText(10)
    assert space != FreeText(11)
    assert FreeText(MAX_REPLY_CHARACTERS) == ConversationWrapper(SokobanEnv()).action_space


@pytest.mark.parametrize("env_id", TEXTS)
def test_the_oracle_plays_every_game_to_its_end(env_id):
    env = gym.make(env_id).env.env
    values, surprises = [], []
    for index in range(25):
        env.reset(options={"split": "test", "index": index})
        first, total = env.oracle(), 0.0
        while env.end is None:
            advice = env.oracle()
            assert 0 < len(advice.actions) <= min(5, env.budget.actions)
            result = env.play(say(*(env.names[a] for a in advice.actions)))
            assert result.parsed.is_valid
            assert result.executed == advice.actions[: len(result.executed)]
            total += result.reward
        values.append(first.value)
        surprises.append((env.success - first.value, total - first.expected_return))
        if first.value in (0, 1):
            assert env.success == first.value
    error = 4 * np.std(surprises, axis=0) / 5  # 0 where the game has no chance
    assert (np.abs(np.mean(surprises, axis=0)) <= error + 1e-9).all()
    assert sum(values) > 3


def test_every_game_has_a_text_id():
    assert {game.text_id for game in GAMES} <= set(TEXTS)
