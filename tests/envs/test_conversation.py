import json
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import NAMES, QUICK, REPLIES, TEXTS, say

from ragen_envs.conversation import (
    ConversationSettings,
    ConversationWrapper,
    Defect,
    EndReason,
    format_reply,
)
from ragen_envs.errors import RagenError
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.sokoban import SokobanEnv

CORRIDOR = ["########", "#P__X_O#", "########"]
WIDE = ["######", "#P___#", "#__X_#", "#__O_#", "######"]


def sokoban(rows=WIDE, **settings_):
    env = ConversationWrapper(SokobanEnv(level=rows), **settings_)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("think", [True, False])
@pytest.mark.parametrize(
    ("limits", "stated"),
    [
        (
            (5, 5, 10),
            "at most 5 turns (replies), with up to 5 actions per turn and at most 10 in the whole game",
        ),
        ((1, 1, 1), "one turn (one reply), with one action"),
        ((1, 4, 3), "one turn (one reply), with up to 3 actions"),
        ((3, 5, 1), "at most 3 turns (replies) and one action in the whole game"),
        (
            (4, 1, 2),
            "at most 4 turns (replies), with one action per turn and at most 2 in the whole game",
        ),
        (
            (2, 10, 7),
            "at most 2 turns (replies), with up to 7 actions per turn and at most 7 in the whole game",
        ),
        ((4, 3, 100), "at most 4 turns (replies), with up to 3 actions per turn"),
    ],
)
def test_stated_limits_are_enforced(limits, stated, think):
    turns, per_turn, most = limits
    env = sokoban(max_turns=turns, actions_per_turn=per_turn, max_actions=most, think=think)
    assert f"You have {stated}." in env.system
    assert ("||" in env.system) == (min(per_turn, most) > 1)
    assert ("<think>" in env.system) == think
    executed = taken = 0
    while env.end is None:
        left = most - executed
        shown = f" Actions left: {left}." if "whole game" in env.system else ""
        allowed = f" Limit for this turn: {min(per_turn, left)}." if per_turn > 1 else ""
        asked = f"Turn {taken + 1} of {turns}.{shown}{allowed}\n" if turns > 1 else ""
        assert env.user.endswith(f"{asked}{env.state_text()}")
        assert ("Turn" in env.user) == (turns > 1)
        result = env.play(say(*["Up"] * (per_turn + 1), think=think))
        assert len(result.executed) == min(per_turn, left)
        assert result.parsed.defects == (Defect.TOO_MANY_ACTIONS,)
        executed += len(result.executed)
        taken += 1
    assert env.end == "budget"
    assert taken == turns or executed == most
    assert taken <= turns
    assert executed <= most


def test_the_reason_for_the_end_is_a_reason_and_a_word():
    env = sokoban(max_turns=1)
    assert env.end is None
    *_, info = env.step(say("Up"))
    assert env.end is EndReason.BUDGET
    assert (info["end"], type(info["end"])) == ("budget", str)
    with pytest.raises(RagenError, match=r"has ended \(budget\)"):
        env.step(say("Up"))


def test_exactly_the_stated_limit_is_valid():
    env = sokoban(max_turns=2, actions_per_turn=4, max_actions=6)
    assert env.play(say(*["Up"] * 4)).parsed.is_valid
    assert env.play(say(*["Up"] * 2)).parsed.is_valid
    assert env.end == "budget"


def signs_on_boards(env, seeds):
    """Return every character seen on boards while playing at random and by the oracle."""
    rng = np.random.default_rng(0)
    seen = set()
    for seed in range(seeds):
        env.reset(seed=seed)
        while True:
            seen |= set(env.state_text()) - {"\n"}
            if env.end is not None:
                break
            if seed % 2:
                run = [env.names[a] for a in env.oracle().actions[:1]]
            else:
                run = [env.names[rng.integers(4)]]
            env.play(format_reply(run, ""))
    return seen


MINE = dict(
    zip(
        ("wall", "empty", "target", "box on target", "box", "player", "player on target"),
        "█·◎■□☺☻",
        strict=True,
    )
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "symbols"),
    [
        ("SokobanLarge", "standard"),
        ("SokobanLarge", "new_vocab"),
        ("SokobanLarge", MINE),
        ("FrozenLake", "standard"),
    ],
)
def test_the_legend_lists_the_symbols_in_use(game, symbols):
    env = ConversationWrapper(
        gym.make(f"ragen/{game}-v0"),
        symbols=symbols,
        max_turns=40,
        max_actions=40,
        actions_per_turn=1,
    )
    env.reset(seed=0)
    (legend,) = re.findall(r"^Symbols: (.*)\.$", env.system, re.MULTILINE)
    listed = [entry.split(" ", 1) for entry in legend.split(", ")]
    assert [sign for sign, _ in listed] == list(env.symbols.values())
    assert [name for _, name in listed] == list(env.symbols)
    assert signs_on_boards(env, 60) == {sign for sign, _ in listed}


@pytest.mark.parametrize(("game", "signs"), [("Minesweeper", "·iztfvsehCM"), ("Sudoku", ".wxyz")])
def test_own_signs_of_digits_are_all_explained(game, signs):
    names = gym.make(f"ragen/{game}-v0").unwrapped.text.cell_names
    env = gym.make(f"ragen/{game}Text-v0", symbols=dict(zip(names, signs, strict=True)))
    prompt, _ = env.reset(seed=0)
    assert all(f"{sign} {name}" in prompt for sign, name in zip(signs, names, strict=True))


def test_symbols_stand_for_their_cells():
    env = sokoban(["######", "#P√XO#", "######"], symbols=MINE)
    assert env.state_text() == "██████\n█☺■□◎█\n██████"
    assert env.symbols == MINE


def test_bandits_have_no_legend():
    env = gym.make("ragen/BanditText-v0")
    assert "Symbols" not in env.reset(seed=0)[0]


def test_messages_with_full_history():
    env = sokoban()
    first = env.messages
    assert [message["role"] for message in first] == ["system", "user"]
    assert env.reset(seed=0)[0] == f"{first[0]['content']}\n\n{first[1]['content']}"
    replies = [say("Up"), "rubbish", say("Down", "Up")]
    for reply in replies:
        env.play(reply)
    chat = env.messages
    assert [m["role"] for m in chat] == ["system", *["user", "assistant"] * 3, "user"]
    assert [m["content"] for m in chat if m["role"] == "assistant"] == replies
    assert chat[:2] == first
    assert chat[-1]["content"] == env.user
    assert all(set(message) == {"role", "content"} for message in chat)


@pytest.mark.parametrize(
    ("history", "turns", "kept"),
    [("last", 1, 1), ("last", 2, 2), ("last", sys.maxsize, 5), ("none", 3, 0)],
)
def test_messages_with_less_history(history, turns, kept):
    full, env = sokoban(), sokoban(history=history, history_turns=turns)
    for reply in (say("Up"), say("Down"), say("Up"), say("Left")):
        assert env.messages == full.messages[:1] + full.messages[1:][-(2 * kept + 1) :]
        for each in (full, env):
            each.play(reply)
    assert env.messages == full.messages[:1] + full.messages[1:][-(2 * kept + 1) :]


def test_messages_show_the_beginning_of_each_turn_once():
    env = sokoban(think_prefix=True)
    plain = sokoban()
    assert env.messages == plain.messages
    for reply in ("hm</think><answer>Up</answer>", say("Down"), "rubbish"):
        assert env.play(reply).parsed.is_valid == (reply != "rubbish")
    told = [m["content"] for m in env.messages if m["role"] == "assistant"]
    assert told == ["<think>hm</think><answer>Up</answer>", say("Down"), "<think>rubbish"]
    assert env.messages[-1] == {"role": "user", "content": env.user}


def test_reset_forgets():
    env = sokoban()
    env.play(say("Up"))
    env.reset(seed=0)
    assert len(env.messages) == 2
    assert env.budget.turns == 5
    assert env.budget.actions == 10


@pytest.mark.parametrize("env_id", TEXTS)
def test_the_system_prompt_stays(env_id):
    env = gym.make(env_id).env.env
    assert isinstance(env, ConversationWrapper)
    env.reset(seed=0)
    system, names = env.system, env.names
    while env.end is None:
        env.play(format_reply([env.names[0]], ""))
        assert env.messages[0] == {"role": "system", "content": system}
    env.reset(seed=0)
    assert env.system == system
    env.reset(seed=1)  # only the actions of a bandit are another level's
    assert env.system.replace(", ".join(env.names), "") == system.replace(", ".join(names), "")


@pytest.mark.parametrize("penalty", [0, -0.1, -2])
def test_penalties(penalty):
    env = sokoban(format_penalty=penalty)
    good, bad = env.play(say("Up")), env.play("Up")
    assert (good.penalty, good.reward) == (0, pytest.approx(-0.1))
    assert (bad.penalty, bad.reward) == (penalty, penalty)
    mixed = env.play("<answer>Up</answer>")
    assert mixed.reward == pytest.approx(penalty - 0.1)
    assert (" costs " in env.system) == (penalty < 0)
    if penalty:
        assert f"costs {-penalty:g};" in env.system


def test_one_penalty_for_many_defects():
    env = sokoban()
    result = env.play("<answer>Up||||Jump")
    assert len(result.parsed.defects) == 3
    assert result.penalty == -0.1


PARTLY = "<think>a</think><answer>Down || Right || Jump || Up</answer>"


def test_invalid_penalise():
    env = sokoban(invalid="penalise")
    result = env.play(PARTLY)
    assert result.executed == (1, 3)
    assert result.effective == (True, True)
    assert result.end is None
    assert env.state_text() == "######\n#____#\n#_PX_#\n#__O_#\n######"


def test_invalid_discard():
    env = sokoban(invalid="discard")
    before = env.state_text()
    result = env.play(PARTLY)
    assert result.executed == result.effective == result.rewards == ()
    assert result.parsed.actions == (1, 3)
    assert (result.penalty, result.end) == (-0.1, None)
    assert env.state_text() == before
    assert (env.budget.turns, env.budget.actions) == (4, 10)


def test_invalid_end():
    env = sokoban(invalid="end")
    env.play(say("Up"))
    _, reward, terminated, truncated, info = env.step(PARTLY)
    assert (reward, terminated, truncated, info["end"]) == (-0.1, True, False, "invalid")
    assert info["executed"] == ()
    assert info["action_is_effective"] is False
    with pytest.raises(RagenError, match=r"ended \(invalid\)"):
        env.play(say("Up"))


@pytest.mark.parametrize(
    ("invalid", "said"),
    [
        ("penalise", "costs 0.1; its actions before the first invalid one are still executed."),
        ("discard", "is ignored and costs 0.1."),
        ("end", "is ignored, costs 0.1 and ends the game."),
    ],
)
def test_what_an_invalid_reply_does_is_stated(invalid, said):
    last = sokoban(invalid=invalid).system.splitlines()[-1]
    assert last.startswith("An invalid reply (wrong format, unknown action or too many actions) ")
    assert last.endswith(said)
    free = sokoban(invalid=invalid, format_penalty=0).system.splitlines()[-1]
    ending = said.replace("is ignored, costs 0.1 and ends", "ends")
    assert free.endswith(ending.replace("costs 0.1", "uses up the turn"))


@pytest.mark.parametrize("invalid", ["penalise", "discard", "end"])
def test_valid_replies_are_the_same_under_every_policy(invalid):
    env = sokoban(invalid=invalid)
    result = env.play(say("Down", "Right"))
    assert (result.executed, result.penalty, result.end) == ((1, 3), 0, None)


def test_soft_defects_cost_nothing_by_default():
    env, other = sokoban(), sokoban()
    text, reward, _, _, info = env.step("<think>a</think><answer>1. Down\n2. Right</answer>")
    plain, same, _, _, told = other.step(say("Down", "Right"))
    assert (text, reward) == (plain, same)
    assert info.pop("soft_defects") == ("line_breaks", "numbered_list")
    assert told.pop("soft_defects") == ()
    assert info == told


def test_soft_defects_are_penalised_on_request():
    plain = sokoban().play(say("Down", "Right")).reward
    env = sokoban(soft_defects="penalise")
    text, reward, _, _, info = env.step("<think>a</think><answer>Down, Right</answer>")
    assert reward == pytest.approx(plain - 0.1)
    assert (info["defects"], info["soft_defects"]) == (("commas",), ())
    assert info["action_is_valid"] is False
    assert info["executed"] == ("Down", "Right")
    assert "commas" in text
    assert sokoban(soft_defects="penalise", invalid="discard").play("Up, Up").executed == ()
    assert sokoban(soft_defects="penalise").step(say("Down"))[4]["action_is_valid"]


def test_the_models_cut_is_a_defect():
    env = sokoban()
    result = env.play(say("Up"), truncated=True)
    assert result.parsed.defects == (Defect.TRUNCATED,)
    assert result.executed == (0,)
    assert result.penalty == -0.1


def test_turns_run_out():
    env = sokoban(max_turns=2)
    assert env.step(say("Up"))[2] is False
    _, _, terminated, truncated, info = env.step("")
    assert (terminated, truncated, info["end"]) == (True, False, "budget")
    assert (info["turns_left"], info["actions_left"]) == (0, 9)


def test_actions_run_out():
    env = sokoban(max_actions=3)
    env.step(say("Up", "Up"))
    _, _, terminated, truncated, info = env.step(say("Up"))
    assert (terminated, truncated, info["end"]) == (True, False, "budget")
    assert (info["turns_left"], info["actions_left"]) == (3, 0)


def test_success_drops_the_rest_of_the_reply():
    env = sokoban(CORRIDOR)
    env.play(say("Right", "Right"))
    text, reward, terminated, truncated, info = env.step(say("Right", "Right", "Left", "Left"))
    assert info["executed"] == ("Right", "Right")
    assert reward == pytest.approx(10.8)
    assert (terminated, truncated, info["end"], info["success"]) == (
        True, False, "terminated", True,
    )  # fmt: skip
    assert info["actions_left"] == 6
    assert text.endswith("The game is over. You succeeded.\n########\n#____P√#\n########")
    assert "Executed: Right, Right." in text
    assert "Left" not in text


def test_success_with_the_last_action_is_termination():
    env = sokoban(CORRIDOR, max_actions=4, max_turns=1, actions_per_turn=4)
    assert env.play(say(*["Right"] * 4)).end == "terminated"


def test_success_with_a_bad_reply_under_end():
    reply = "<think>a</think><answer>Right||Right||Right||Right||Jump</answer>"
    assert sokoban(CORRIDOR).play(reply).end == "terminated"
    assert sokoban(CORRIDOR, invalid="end").play(reply).end == "invalid"


def test_a_hole_ends_without_success():
    env = ConversationWrapper(FrozenLakeEnv(level=["SHG"], success_rate=1.0))
    env.reset(seed=0)
    result = env.play(say("Right", "Right"))
    assert (result.executed, result.end) == ((2,), "terminated")
    assert result.text.endswith("The game is over. You did not succeed.\n_XG")


def test_the_games_own_time_limit():
    env = ConversationWrapper(gym.make("ragen/Sokoban-v0", level=WIDE, max_episode_steps=3))
    env.reset(seed=0)
    env.play(say("Up", "Up"))
    result = env.play(say("Up", "Up", "Up"))
    assert (result.executed, result.end) == ((0,), "truncated")
    assert "You did not succeed." in result.text


def test_feedback_tells_what_happened():
    env = sokoban()
    text = env.play("<answer>Up || Right || Hop</answer>").text
    assert text.startswith(
        "Your reply was invalid (no <think>, unknown action). Executed: Up (no effect), Right. "
        "Reward: -0.3.\n"
    )
    assert "Turn 2 of 5. Actions left: 8. Limit for this turn: 5." in text
    assert text.endswith(env.state_text())
    assert env.play("").text.startswith(
        "Your reply was invalid (empty reply), so no action was executed. Reward: -0.1.\n"
        "Reply in this format, with actions separated by ||:\n"
        "<think>your reasoning</think><answer>action || action</answer>\n"
    )


def test_final_text_asks_for_nothing():
    env = sokoban(max_turns=1)
    text = env.play(say("Right")).text
    assert "Turn" not in text
    assert text.endswith("The game is over. You did not succeed.\n" + env.state_text())
    assert env.user == text


def test_after_the_end():
    env = sokoban(max_turns=1)
    env.play(say("Up"))
    state = env.state_text()
    for _ in range(2):
        with pytest.raises(RagenError, match=r"ended \(budget\).*reset"):
            env.play(say("Down"))
    with pytest.raises(RagenError, match="ended"):
        env.step("")
    assert env.state_text() == state
    env.reset(seed=0)
    assert env.play(say("Down")).executed == (1,)


@pytest.mark.parametrize("reply", [None, b"<answer>Up</answer>"])
def test_replies_must_be_strings(reply):
    env = sokoban()
    with pytest.raises(RagenError, match=re.escape(f"the reply is {reply!r}, but")):
        env.play(reply)
    assert env.budget.turns == 5


def test_play_before_reset():
    env = ConversationWrapper(SokobanEnv())
    with pytest.raises(RagenError, match="reset"):
        env.play(say("Up"))


@pytest.mark.slow
@given(st.lists(REPLIES, max_size=6), st.sampled_from(["penalise", "discard", "end"]))
@settings(QUICK, max_examples=30)
def test_any_text_can_be_played(replies, invalid):
    env = sokoban(invalid=invalid, max_turns=7, format_penalty=-1)
    for reply in replies:
        observation, reward, terminated, truncated, info = env.step(reply)
        assert observation in env.observation_space
        assert isinstance(reward, float)
        assert not (terminated and truncated)
        assert info["action_is_valid"] == (info["defects"] == ())
        assert len(info["executed"]) <= 5
        if terminated or truncated:
            assert info["end"]
            break


def test_step_and_play_agree():
    stepped, played = sokoban(), sokoban()
    for reply in (say("Up", "Right"), "x", "<answer>Down</answer>", say("Left")):
        observation, reward, terminated, truncated, info = stepped.step(reply)
        result = played.play(reply)
        assert observation == result.text
        assert reward == result.reward == sum(result.rewards) + result.penalty
        assert (terminated or truncated) == (result.end is not None)
        assert info["defects"] == tuple(str(defect) for defect in result.parsed.defects)
        assert info["executed"] == tuple(NAMES[action] for action in result.executed)
        assert info["action_is_effective"] == any(result.effective)


BAD_SETTINGS = [
    ({"max_turns": 0}, "max_turns is 0, but must be an integer >= 1"),
    ({"actions_per_turn": 2.5}, "actions_per_turn is 2.5"),
    ({"max_actions": "10"}, "max_actions is '10'"),
    ({"history_turns": False}, "history_turns is False"),
    ({"think": 1}, "think is 1, but must be true or false"),
    ({"soft_defects": "no"}, "soft_defects is 'no', but must be one of allow, penalise"),
    ({"think_prefix": 1}, "think_prefix is 1, but must be true or false"),
    ({"think_prefix": True, "think": False}, "think_prefix is true, but think is false"),
    ({"history": "all"}, "history is 'all', but must be one of full, last, none"),
    (
        {"observation": "text"},
        "observation is 'text', but must be one of grid, coordinates, both, image",
    ),
    ({"invalid": "skip"}, "invalid is 'skip', but must be one of penalise, discard, end"),
    ({"format_penalty": 0.5}, "format_penalty is 0.5, but must be a number <= 0"),
]


@pytest.mark.parametrize(("wrong", "words"), BAD_SETTINGS)
def test_settings_are_checked(wrong, words):
    for make in (ConversationSettings, lambda **s: ConversationWrapper(SokobanEnv(), **s)):
        with pytest.raises(RagenError, match=re.escape(words)):
            make(**wrong)


def test_settings_as_plain_data():
    made = ConversationSettings(max_turns=3, symbols=MINE)
    assert ConversationSettings(**made.to_dict()) == made
    assert made.to_dict()["symbols"] == MINE
    assert (made.actions_per_turn, made.max_actions, made.format_penalty) == (5, 10, -0.1)


def test_settings_of_numpy_are_numbers():
    counts = {"max_turns": 3, "actions_per_turn": 2, "max_actions": 4, "history_turns": 2}
    plain = ConversationSettings(**counts, demonstrations=1, format_penalty=-0.5)
    given = {name: np.int64(count) for name, count in counts.items()}
    made = ConversationSettings(**given, demonstrations=np.uint8(1), format_penalty=np.float32(-0.5))
    assert made == plain
    assert json.dumps(made.to_dict()) == json.dumps(plain.to_dict())


def test_symbols_that_change_later_change_nothing():
    symbols = dict(MINE)
    first = ConversationWrapper(SokobanEnv(), symbols=symbols, demonstrations=1)
    symbols["wall"] = "W"
    second = ConversationWrapper(SokobanEnv(), symbols=symbols, demonstrations=1)
    for env, wall, other in ((first, MINE["wall"], "W"), (second, "W", MINE["wall"])):
        env.reset(seed=0)
        boards = [each["content"].partition("turn: 5.")[2] for each in env.messages[1::2]]
        assert len(boards) == 2
        assert all(wall in board and other not in board for board in boards)
        assert env.settings.symbols["wall"] == wall


def test_unknown_settings():
    with pytest.raises(TypeError, match="'turns'"):
        ConversationWrapper(SokobanEnv(), turns=3)


BAD_SYMBOLS = [
    (None, "symbols is None, but must be a name or a mapping"),
    ("runes", "symbols is 'runes', but this game has standard, new_vocab"),
    ({"wall": "#"}, "symbols has the cells wall, but must have wall, empty"),
    ({**MINE, "door": "D"}, "door"),
    ({**MINE, "wall": "·"}, "its own single character"),
    ({**MINE, "wall": "##"}, "its own single character"),
    ({**MINE, "wall": " "}, "its own single character"),
    ({**MINE, "wall": "\u200b"}, "its own single character"),
    ({**MINE, "wall": 7}, "its own single character"),
]


@pytest.mark.parametrize(("symbols", "words"), BAD_SYMBOLS)
def test_symbols_are_checked(symbols, words):
    with pytest.raises(RagenError, match=re.escape(words)):
        ConversationWrapper(SokobanEnv(), symbols=symbols)


def test_games_without_words_are_refused():
    with pytest.raises(RagenError, match="no text face"):
        ConversationWrapper(gym.make("CartPole-v1"))
