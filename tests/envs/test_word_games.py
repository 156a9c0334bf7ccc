"""Games whose actions are words: what every one of them promises, and how replies to them are read."""

import json
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragen_envs.adapters.trl_tools import GameTools
from ragen_envs.conversation import Defect, SoftDefect, format_reply, make
from ragen_envs.errors import GameError, RagenError, ResetNeededError
from ragen_envs.game.word_game import LEGAL, WordGameEnv
from ragen_envs.registration import GAMES

QUICK = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
WORDS = [game for game in GAMES if issubclass(game.env_class, WordGameEnv)]
IDS = [game.id for game in WORDS]
BAD = (
    "",
    "   ",
    "nonsense",
    "\x00",
    "√ 漢字",
    "a" * 5000,
    "<b>x</b>",
    "click[]",
    "1 + ",
    "r9c9 = 3",
)


def started(env_id, **keywords):
    env = gym.make(env_id, **keywords).unwrapped
    env.reset(seed=3)
    return env


def talk(game, **settings):
    env = make(f"ragen/{game}Text-v0", **settings)
    env.reset(seed=3)
    return env


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("action", BAD)
def test_illegal_actions_change_nothing_and_say_why(env_id, action):
    env = started(env_id)
    before, best = env.observe(), env.oracle()
    found = env.legal(action)
    assert not found.is_legal
    assert found.reason
    assert "\n" not in found.reason
    observation, reward, ended, cut, info = env.step(action)
    assert (observation, reward, ended, cut) == (before, 0.0, False, False)
    assert (info["action_is_valid"], info["action_is_effective"]) == (False, False)
    assert info["reason"] == found.reason
    assert env.oracle() == best
    assert env.step(env.available()[0])[4]["reason"] == ""


@pytest.mark.parametrize("env_id", IDS)
def test_what_is_available_is_legal_and_random_play_is_too(env_id):
    env, rng = started(env_id), np.random.default_rng(0)
    for seed in range(5):
        env.reset(seed=seed)
        for _ in range(12):
            assert all(env.legal(action).is_legal for action in env.available())
            action = env.random_action(rng)
            assert env.legal(action).is_legal
            if env.step(action)[2]:
                break


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("action", [3])
def test_actions_must_be_strings(env_id, action):
    with pytest.raises(RagenError, match=r"must be a string"):
        started(env_id).step(action)


@pytest.mark.parametrize("env_id", IDS)
def test_legality_needs_an_episode(env_id):
    with pytest.raises(ResetNeededError):
        gym.make(env_id).unwrapped.legal("x")


@pytest.mark.slow
@pytest.mark.parametrize("game", [game.name for game in WORDS])
@given(text=st.text(max_size=300))
@QUICK
def test_any_reply_gives_actions_that_run(game, text):
    env = talk(game)
    result = env.play(f"<think>a</think><answer>{text}</answer>")
    assert all(isinstance(action, str) for action in result.parsed.actions)
    assert result.executed == result.parsed.actions[: len(result.executed)]
    assert result.parsed.is_valid == (not result.parsed.defects)
    assert (Defect.ILLEGAL_ACTION in result.parsed.defects) == bool(result.parsed.reason)


def read(answer, level="60: 3 7 8 25", limit=3, **settings):
    env = make("ragen/CountdownText-v0", level=level, actions_per_turn=limit, **settings)
    env.reset()
    return env, env.play(f"<think>a</think><answer>{answer}</answer>")


def test_later_actions_are_checked_where_they_would_run():
    env, result = read("25 - 7 || 18 * 3 || 54 + 8")
    assert result.parsed.is_valid
    assert (result.executed, env.unwrapped.numbers) == (("25 - 7", "18 * 3", "54 + 8"), (62,))
    _, result = read("25 - 7 || 25 * 3 || 54 + 8")
    assert result.parsed.defects == (Defect.ILLEGAL_ACTION,)
    assert result.parsed.reason == "25 is not among the numbers"
    assert result.executed == ("25 - 7",)
    assert "Your reply was invalid (illegal action: 25 is not among the numbers)." in result.text


def test_what_follows_the_end_of_the_game_is_not_checked():
    _, result = read("25 - 7 || 18 + 8 || nonsense", level="26: 3 7 8 25")
    assert result.parsed.is_valid
    assert (result.executed, result.reward) == (("25 - 7", "18 + 8"), 1.0)


@pytest.mark.parametrize(("invalid", "numbers"), [("penalise", (3, 8, 18)), ("discard", (3, 7, 8, 25))])
def test_the_rule_for_invalid_replies_holds(invalid, numbers):
    env, result = read("25 - 7 || no", invalid=invalid)
    assert env.unwrapped.numbers == numbers
    assert result.penalty == -0.1


@pytest.mark.parametrize(
    ("answer", "defects"),
    [
        ("", ["empty_answer"]),
        (" || ", ["empty_answer"]),
        ("3 + 7 || ", []),
        ("3 + 7 || 8 + 10 || 18 + 25 || 1 + 1", ["too_many_actions"]),
        ("3 + 9", ["illegal_action"]),
    ],
)
def test_defects_of_answers(answer, defects):
    _, result = read(answer)
    assert [str(defect) for defect in result.parsed.defects] == defects


def test_too_many_actions():
    _, result = read("3 + 7 || 8 + 10 || 18 + 25", limit=2)
    assert result.parsed.defects == (Defect.TOO_MANY_ACTIONS,)
    assert result.executed == ("3 + 7", "8 + 10")


@pytest.mark.parametrize(
    ("answer", "soft"),
    [
        ("`3 + 7`", SoftDefect.MARKDOWN),
        ("**3 + 7**", SoftDefect.MARKDOWN),
        ('"3 + 7"', SoftDefect.PUNCTUATION),
        ("\uff13 + 7", SoftDefect.UNUSUAL_CHARACTERS),
        ("3 + 7\n8 + 10", SoftDefect.LINE_BREAKS),
    ],
)
def test_other_forms_of_answers_are_read(answer, soft):
    _, result = read(answer)
    assert result.parsed.is_valid
    assert result.parsed.soft_defects == (soft,)
    assert result.executed[0] == "3 + 7"
    _, strict = read(answer, soft_defects="penalise")
    assert strict.parsed.defects == (soft,)


BOARD = ["o....", ".....", "****.", ".....", "....."]
CELLS = ("r5c5", "r4c5")
"""Cells that are closed at the beginning and end nothing, alone or together."""


def open_cells(answer, **settings):
    env = make("ragen/MinesweeperText-v0", level=BOARD, actions_per_turn=3, **settings)
    env.reset()
    return env.play(f"<think>a</think><answer>{answer}</answer>")


@pytest.mark.parametrize(
    ("answer", "count", "soft"),
    [
        ("```\nr5c5\n```", 1, "markdown"),
        ("```\nr5c5\nr4c5\n```", 2, "line_breaks markdown"),
        ("```\nr5c5 || r4c5\n```", 2, "markdown"),
        ("``` r5c5 || r4c5 ```", 2, "markdown"),
        ("``` r5c5 ``` || ``` r4c5 ```", 2, "markdown"),
        ("1. r5c5", 1, "numbered_list"),
        ("2) r5c5", 1, "numbered_list"),
        ("- r5c5", 1, "bulleted_list"),
        ("* r5c5", 1, "bulleted_list"),
        ("• r5c5", 1, "bulleted_list"),
        ("r5c5.", 1, "punctuation"),
        ("r5c5;", 1, "punctuation"),
        ("**r5c5**.", 1, "markdown punctuation"),
        ("`r5c5.`", 1, "markdown punctuation"),
        ("1. r5c5\n2. r4c5", 2, "line_breaks numbered_list"),
        ("- `r5c5`\n- `r4c5`", 2, "line_breaks bulleted_list markdown"),
        ("r5c5. || r4c5.", 2, "punctuation"),
        ("r5c5 || || r4c5 ||", 2, "empty_action"),
        ("r5c5, r4c5", 2, "commas"),
        ("(r5c5); r4c5", 2, "semicolons punctuation"),
        ("r5c5 -> r4c5", 2, "arrow_separators"),
        ("r5c5 | r4c5", 2, "single_bars"),
        ("r5c5 then r4c5", 2, "word_separators"),
        ('["r5c5", "r4c5"]', 2, "bracketed_list"),
        ('[\n"r5c5",\n"r4c5"\n]', 2, "bracketed_list"),
        ('{"actions": ["r5c5", "r4c5"]}', 2, "bracketed_list json_object"),
        ("1. r5c5, 2. r4c5", 2, "commas numbered_list"),
        (r"\boxed{r5c5} || \boxed{\text{r4c5}}", 2, "boxed"),
    ],
)
def test_clear_answers_cost_nothing(answer, count, soft):
    result = open_cells(answer)
    assert result.parsed.defects == ()
    assert [str(kind) for kind in result.parsed.soft_defects] == soft.split()
    assert result.executed == CELLS[:count]
    assert result.penalty == 0
    strict = open_cells(answer, soft_defects="penalise").parsed
    assert strict.defects == result.parsed.soft_defects


@pytest.mark.parametrize(
    ("answer", "executed"),
    [
        ("```\nnonsense\n```", ()),
        ("```", ()),
        ("1. nonsense", ()),
        ("1.r5c5", ()),
        ("r5c5, r4c5, because", ()),
        ("r5c5 or r4c5", ()),
        ("1. r5c5 2. r4c5", ()),
        ("I open\n```\nr5c5\n```", ()),
        ("```\nr5c5\nnonsense\n```", CELLS[:1]),
    ],
)
def test_other_answers_are_illegal(answer, executed):
    result = open_cells(answer)
    assert result.parsed.defects == (Defect.ILLEGAL_ACTION,)
    assert result.executed == executed


def test_a_form_that_is_illegal_without_its_marks_keeps_its_reason():
    assert open_cells("1. nonsense").parsed.reason.startswith("'1. nonsense' is not a cell")
    assert open_cells("```\nnonsense\n```").parsed.reason.startswith("'nonsense' is not a cell")


@pytest.mark.parametrize(
    ("game", "answer", "executed", "soft"),
    [
        ("Countdown", "15 - 13 = 2, 2 * 7 = 14", ("15 - 13 = 2", "2 * 7 = 14"), "commas"),
        ("Countdown", "15 – 13; 2 ⋅ 7", ("15 - 13", "2 · 7"), "semicolons unusual_characters"),
        ("Countdown", "15 - 13 = 2, 15 * 7", (), ""),
        ("Mastermind", "[R R G B]", ("R R G B",), "bracketed_list"),
        ("Mastermind", '["red", "R", "green", "B"]', ("red, R, green, B",), "bracketed_list"),
        ("Mastermind", "Red red GREEN blue, R R G B", ("Red red GREEN blue", "R R G B"), "commas"),
        ("Mastermind", "red red green", (), ""),
        ("Sudoku", "r1c2 = 3, r1c3 = 2", ("r1c2 = 3", "r1c3 = 2"), "commas"),
        ("Sudoku", "row 1, column 2 = 3; row 1, column 3 = 2",
         ("row 1, column 2 = 3", "row 1, column 3 = 2"), "semicolons"),
        ("Sudoku", "r1c2 = 3, r1c3 = 3", (), ""),
        ("WebShop", "search[red shoes, size 3]", ("search[red shoes, size 3]",), ""),
    ],
)  # fmt: skip
def test_a_list_is_read_if_each_action_is_legal_where_it_runs(game, answer, executed, soft):
    levels = {
        "Countdown": "60: 7 13 15 25", "Mastermind": "RGBY", "Sudoku": ["___4", "241_", "4___", "_1__"]
    }  # fmt: skip
    level = {"level": levels[game]} if game in levels else {}
    env = make(f"ragen/{game}Text-v0", actions_per_turn=3, **level)
    env.reset(seed=3)
    result = env.play(f"<think>a</think><answer>{answer}</answer>")
    assert (result.executed, [*map(str, result.parsed.soft_defects)]) == (executed, soft.split())
    assert result.parsed.is_valid == bool(executed)
    assert ("Reply in this format" in result.text) == (not executed)


@given(st.data())
@QUICK
def test_every_form_of_a_list_is_the_list(data):
    env = talk("Countdown", actions_per_turn=3)
    actions = env.random_actions(np.random.default_rng(data.draw(st.integers(0, 99))), 3)
    forms = ["{} || {} ||", "{}, {}", "{}; {}", "{} -> {}", "{}\n{}", '["{}", "{}"]', "[{}; {}]"]
    text = data.draw(st.sampled_from(forms)).format(*actions[:2])
    dash = data.draw(st.sampled_from("-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"))
    answer = text.replace(" - ", f" {dash} ")
    result = env.play(f"<think>a</think><answer>{answer}</answer>")
    assert result.parsed.defects == ()
    assert [action.replace(dash, "-") for action in result.executed] == list(actions[:2])


def test_a_decimal_number_is_no_item_of_a_list():
    assert read("1.7 + 8")[1].parsed.defects == (Defect.ILLEGAL_ACTION,)


@pytest.mark.parametrize("game", [game.name for game in WORDS])
@pytest.mark.parametrize("form", ["```\n{}\n```", "1. {}", "- {}", "{}."])
def test_every_game_reads_such_forms(game, form):
    env = talk(game)
    action = env.oracle().actions[0]
    assert not env.unwrapped.legal(form.format(action)).is_legal
    result = env.play(f"<think>a</think><answer>{form.format(action)}</answer>")
    assert (result.parsed.is_valid, result.executed) == (True, (action,))


@pytest.mark.parametrize("invalid", ["penalise", "discard", "end"])
@pytest.mark.parametrize("answer", ["no", "25 - 7 || no"])
def test_the_info_of_a_reply_says_why_an_action_is_illegal(answer, invalid):
    env = make("ragen/CountdownText-v0", level="60: 3 7 8 25", actions_per_turn=2, invalid=invalid)
    assert env.reset()[1]["reason"] == ""
    told, _, _, _, info = env.step(f"<think>a</think><answer>{answer}</answer>")
    withheld = invalid != "penalise" and "||" in answer
    assert bool(info["reason"]) == (not withheld)
    assert info["reason"] in told
    if env.end is None:
        assert env.step("<think>a</think><answer>3 + 8</answer>")[4]["reason"] == ""


@pytest.mark.parametrize("game", [game.name for game in WORDS])
def test_reading_a_reply_does_not_play_it(game):
    env = talk(game)
    before = env.state_text()
    actions = " || ".join(env.oracle().actions)
    assert env.turn_value(f"<think>a</think><answer>{actions}</answer>") is not None
    assert env.state_text() == before


def test_a_reason_does_not_tell_what_did_not_happen():
    answer = "search[tea] || click[nonsense]"
    told = {}
    for invalid in ("penalise", "discard"):
        env = make("ragen/WebShopText-v0", actions_per_turn=2, invalid=invalid)
        env.reset(seed=0)
        told[invalid] = env.play(f"<think>a</think><answer>{answer}</answer>").text
    assert "there is no button 'nonsense' here; the buttons are" in told["penalise"]
    assert "Your reply was invalid (illegal action), so no action was executed." in told["discard"]
    assert "[P0" not in told["discard"]


def test_games_are_tools_too():
    tools = GameTools("ragen/CountdownText-v0", level="26: 3 7 8 25")
    tools.reset()
    assert "Reward: 0." in tools.act("25 - 7")
    assert "You succeeded." in tools.act("18 + 8")
    assert tools.get_reward() == 1.0


CODE = """
import json, gymnasium as gym, ragen_envs
from ragen_envs.conversation import make
told = []
for name in ("Countdown", "Mastermind", "Sudoku", "Minesweeper", "WebShop"):
    env = make(f"ragen/{name}Text-v0")
    for index in range(3):
        env.reset(options={"split": "test", "index": index})
        while env.end is None:
            actions = " || ".join(env.oracle().actions)
            env.play(f"<think>a</think><answer>{actions}</answer>")
            told.append(env.user)
print(json.dumps(told))
"""


@pytest.mark.slow
def test_the_same_whatever_the_hash_seed():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    here = {}
    exec(CODE, here)
    assert json.loads(done.stdout) == here["told"]
    assert len(here["told"]) > 20


@pytest.mark.parametrize("method", ["legality", "play"])
def test_a_broken_method_of_a_game_is_named_when_it_is_played(method, monkeypatch):
    env = make("ragen/Countdown-v0")
    env.reset(seed=0)
    advice = format_reply([str(action) for action in env.oracle().actions], "go")

    def broken(self, *_):
        raise ZeroDivisionError("no rule")

    monkeypatch.setattr(type(env.unwrapped), method, broken)
    error = r"^CountdownEnv\.broken raised ZeroDivisionError: no rule; see docs/add-a-game\.md$"
    with pytest.raises(GameError, match=error):
        env.play(advice)
    with pytest.raises(GameError, match=error):
        env.random_actions(np.random.default_rng(0), 1)


def test_a_game_without_a_text_of_its_state_is_named():
    class Mute(WordGameEnv):
        distribution = "mute"

        def draw_level(self, rng):
            return str(rng.integers(9))

        def start(self, level):
            pass

        def legality(self, action):
            return LEGAL

        def available(self):
            return ("go",)

        def play(self, action):
            return 0.0, False, True

        def solution(self):
            return None

        success = False

    with pytest.raises(RagenError, match="Mute has neither a method observe nor a text face"):
        Mute().reset(seed=0)
