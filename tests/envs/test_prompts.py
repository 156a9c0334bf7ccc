import re
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from playing import best_texts
from replies import TEXTS, say

from ragen_envs.conversation import (
    ConversationWrapper,
    FreeText,
    format_reply,
)
from ragen_envs.conversation.parser import MAX_REPLY_CHARACTERS
from ragen_envs.games.bandit import BanditEnv
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.sokoban import Reward, SokobanEnv
from ragen_envs.registration import GAMES


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
            "box": where(board, 3, 4),
            "target": where(board, 2, 3, 6),
            "wall": inner,
        }
        assert ("wall: none" in text) == (not inner)
    assert "Symbols" not in env.system


def test_lake_coordinates():
    env = ConversationWrapper(FrozenLakeEnv(size=(4, 6), p=0.6), observation="coordinates", max_turns=10)
    for board, text in random_walk(env, 25):
        assert text.startswith("The board has 4 rows and 6 columns. ")
        assert coordinates(text) == {
            "player": where(board, 3, 4, 5),
            "goal": where(board, 2, 5),
            "hole": where(board, 1, 4),
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


def first_prompt(env, **settings):
    wrapped = ConversationWrapper(env, **settings)
    return wrapped.reset(seed=0)[0]


BLOCKED = {
    "Sokoban": "A blocked move changes nothing but still counts as an action.",
    "FrozenLake": "A move off the edge leaves you where you are but still counts as an action.",
}


@pytest.mark.parametrize("env_id", TEXTS)
def test_the_first_prompt_is_complete(env_id):
    env = gym.make(env_id)
    prompt, _ = env.reset(seed=0)
    names = env.get_wrapper_attr("names")
    assert f"Actions: {', '.join(names)}." in prompt
    assert "Rewards: " in prompt
    assert "You have " in prompt
    assert "Reply in this format" in prompt
    assert "<think>your reasoning</think><answer>" in prompt
    assert "An invalid reply (" in prompt
    assert " costs 0.1; " in prompt
    assert re.search(r"game ends|end the game", prompt)
    assert not re.search(r"\b0 for\b", prompt)
    for game, blocked in BLOCKED.items():
        assert (blocked in prompt) == (game in env_id)


def test_the_whole_prompt_of_sokoban():
    assert first_prompt(SokobanEnv(level=["######", "#PXO_#", "######"])) == (
        "You are playing Sokoban. Push every box onto a target; then the game ends. Each action moves "
        "you one cell. Moving into a box pushes it if the cell behind it is free (no wall or box); "
        "you cannot pull boxes. A blocked move changes nothing but still counts as an action. "
        "Rewards: -0.1 for every action, 1 for pushing a box onto a target, -1 for pushing a box off a "
        "target, 10 when every box is on a target.\n"
        "Symbols: # wall, _ empty, O target, √ box on target, X box, P player, S player on target.\n"
        "Actions: Up, Down, Left, Right.\n"
        "You have at most 5 turns (replies), with up to 5 actions per turn and at most 10 in the whole "
        "game. Actions are executed in order until the game ends.\n"
        "Reply in this format, with actions separated by ||:\n"
        "<think>your reasoning</think><answer>action || action</answer>\n"
        "An invalid reply (wrong format, unknown action or too many actions) costs 0.1; its actions "
        "before the first invalid one are still executed.\n\n"
        "Turn 1 of 5. Actions left: 10. Limit for this turn: 5.\n######\n#PXO_#\n######"
    )


@pytest.mark.parametrize("kind", ["Bandit", "BanditRev", "BanditTrap"])
def test_the_prompt_does_not_tell_the_bandits_apart(kind):
    env = gym.make(f"ragen/{kind}Text-v0", level=["Tiger", "Cow"])
    assert env.reset(seed=0)[0] == (
        "You are playing a two-armed bandit. You pull one arm, once, by giving its name; then the "
        "game ends. One arm always pays a small amount; the other pays a larger amount or nothing. "
        "Use what the names suggest to choose the arm that pays more on average. Rewards: the amount "
        "that your arm pays.\n"
        "Actions: Tiger, Cow.\n"
        "You have one turn (one reply), with one action.\n"
        "Reply in this format:\n"
        "<think>your reasoning</think><answer>action</answer>\n"
        "An invalid reply (wrong format, unknown action or several actions) costs 0.1; its first "
        "action, if valid, is still executed.\n\n"
        "Arms: Tiger, Cow"
    )


def test_the_bandit_does_not_promise_a_larger_amount_that_is_smaller():
    prompt = first_prompt(BanditEnv(sure=2.0, jackpot=1.0, chance=0.5))
    assert "larger" not in prompt
    assert "pays no more" in prompt


AMOUNTS = st.one_of(st.just(0.0), st.floats(-20, 20).map(lambda amount: round(amount, 3)))


@given(st.fixed_dictionaries(dict.fromkeys(Reward._fields, AMOUNTS)))
def test_sokobans_rules_state_its_rewards(weights):
    rules = first_prompt(SokobanEnv(reward=weights)).splitlines()[0]
    stated = {
        reason: float(amount)
        for amount, reason in re.findall(r"(-?[\d.]+(?:e-?\d+)?) ((?:for|when) [^,.(]+)", rules)
    }
    cancels = weights["box_on"] == -weights["box_off"]
    reasons = {
        "per_action": "for every action",
        "box_on": "for pushing a box onto a target" if cancels else "when one more box is on a target",
        "box_off": "for pushing a box off a target" if cancels else "when one fewer box is on a target",
        "solved": "when every box is on a target",
    }
    expected = {reasons[name]: amount for name, amount in weights.items() if amount}
    assert stated == expected
    assert ("Rewards: none." in rules) == (not expected)
    assert not re.search(r"\b0 for\b", rules)


LONG = ["########", "#P_X_O_#", "#______#", "#______#", "########"]


@pytest.mark.parametrize("name", ["dense", "sparse"])
def test_a_push_is_paid_as_the_rules_say(name):
    env = ConversationWrapper(SokobanEnv(level=LONG, reward=name))
    prompt, _ = env.reset(seed=0)
    stated = re.findall(r"(-?[\d.]+) for every action", prompt)
    expected = sum(map(float, stated))
    env.play(say("Right"))
    assert env.play(say("Right")).reward == pytest.approx(expected)


@given(st.floats(0, 1, exclude_max=True))
@example(1 / 3)
@example(2 / 3)
@example(0.8)
@example(0.0)
def test_the_probabilities_of_slipping_add_up(rate):
    prompt = first_prompt(FrozenLakeEnv(success_rate=rate))
    stated = re.findall(r"with probability (\d+(?:\.\d+|/\d+)?)", prompt)
    ahead, left, right = map(Fraction, stated)
    assert ahead + left + right == 1
    assert left == right
    assert abs(ahead - Fraction(rate)) < 1e-6


def test_the_rules_have_the_names_of_the_actions():
    names = {"R+": "Right", "R-": "Right-back", "U+": "Top"}
    prompt, _ = gym.make("ragen/CubeText-v0", action_names=names).reset(seed=0)
    assert "Right, Top and F+ turn the right, up and front layers" in prompt
    assert "Right-back, U- and F- turn them" in prompt
    assert "R+" not in prompt


def test_thirds_are_fractions():
    assert "probability 1/3, 90 degrees to its left with probability 1/3" in first_prompt(FrozenLakeEnv())
    assert "always move in the chosen direction" in first_prompt(FrozenLakeEnv(success_rate=1))


@pytest.mark.parametrize("form", ["coordinates", "both"])
@pytest.mark.parametrize("env", [SokobanEnv(), FrozenLakeEnv()], ids=["Sokoban", "FrozenLake"])
def test_coordinates_are_explained(env, form):
    prompt = first_prompt(env, observation=form)
    assert "Positions are (row, column), with row 0 at the top and column 0 at the left." in prompt


def test_free_text():
    space = FreeText(10)
    assert all(text in space for text in ("", "√", "\0" * 10, "\ud800"))
    assert not any(thing in space for thing in ("x" * 11, None, 3, b"x"))
    space.seed(1)
    assert space.sample() in space
    assert space == FreeText(10)
    assert space != FreeText(11)
    assert FreeText(MAX_REPLY_CHARACTERS) == ConversationWrapper(SokobanEnv()).action_space


@pytest.mark.slow
@pytest.mark.parametrize("env_id", TEXTS)
def test_the_oracle_plays_every_game_to_its_end(env_id):
    env = gym.make(env_id).env.env
    values, surprises = [], []
    for index in range(9):
        env.reset(options={"split": "test", "index": index})
        first, total = env.oracle(), 0.0
        while env.end is None:
            advice = env.oracle()
            assert 0 < len(advice.actions) <= env.budget.this_turn
            result = env.play(say(*best_texts(env)))
            assert result.parsed.is_valid
            assert result.executed == advice.actions[: len(result.executed)]
            total += result.reward
        values.append(first.value)
        surprises.append((env.success - first.value, total - first.expected_return))
        if first.value in (0, 1):
            assert env.success == first.value
    error = 4 * np.std(surprises, axis=0) / 3  # 0 where the game has no chance
    assert (np.abs(np.mean(surprises, axis=0)) <= error + 1e-9).all()
    assert sum(values) > 1


def test_every_game_has_a_text_id():
    assert {game.text_id for game in GAMES} <= set(TEXTS)
