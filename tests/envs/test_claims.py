"""Claims of thoughts: true for the oracle's, false exactly where one statement is changed."""

import copy
import re
from functools import lru_cache
from pathlib import Path

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_envs.conversation import make
from ragen_envs.game.claims import END, MOVE, check_thought, count_predicted
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import COORDINATES, explain

GAMES = (
    "Sokoban", "SokobanLarge", "FrozenLake", "FrozenLakeDeterministic", "Cube",
    "Minesweeper", "Sudoku", "Bandit", "BanditRev", "BanditTrap",
)  # fmt: skip
BUDGET = Budget(actions=40, turns=25, actions_per_turn=5)


def game(name, seed=0, **keywords):
    env = gym.make(f"ragen/{name}-v0", **keywords).unwrapped
    env.reset(seed=seed)
    return env


@lru_cache(maxsize=256)
def told(name, seed):
    """Return a game, the oracle's actions, its thought and the claims."""
    env = game(name, seed)
    actions = env.oracle(BUDGET).actions[:5]
    thought = explain(env, actions, BUDGET)
    return env, actions, thought, check_thought(env, thought, actions)


def places(*claims):
    return [claim.true for claim in claims if claim.kind.startswith("place")]


@pytest.mark.parametrize("name", GAMES)
def test_the_oracles_thoughts_are_true(name):
    for seed in range(12):
        _, actions, thought, claims = told(name, seed)
        assert all(claim.true is not False for claim in claims), claims
        assert all(thought[claim.start : claim.end] == claim.stated for claim in claims)
        if name not in ("Bandit", "BanditRev", "BanditTrap"):
            assert [claim.action for claim in claims if claim.kind == MOVE] == list(actions)
        assert claims


def changes(name, claim):
    """Return where one number or word of a claim may be changed so that it is about the same thing."""
    if name.startswith("Bandit"):
        return [match.span() for match in re.finditer(r"(?<=: ).+", claim.stated)]
    if name == "Minesweeper":
        return [match.span() for match in re.finditer(r"safe", claim.stated)]
    if name == "Sudoku":  # a digit that is changed would change what later cells see
        pattern = r"(?<=sees ).*\d"
        return [match.span() for match in re.finditer(pattern, claim.stated)]
    skipped = re.match(r"\d+ [A-Za-z+-]+", claim.stated) if claim.kind == MOVE else None
    return [
        match.span()
        for match in re.finditer(r"\d", claim.stated)
        if match.start() >= (skipped.end() if skipped else 0)
    ]


@settings(max_examples=75)
@given(st.sampled_from(GAMES), st.integers(0, 11), st.data())
def test_a_changed_statement_is_the_only_false_one(name, seed, data):
    env, actions, thought, claims = told(name, seed)
    spots = [(c, span) for c in claims for span in changes(name, c)]
    claim, (start, end) = data.draw(st.sampled_from(spots))
    old = claim.stated[start:end]
    if old.isdigit():
        new = str((int(old) + data.draw(st.integers(1, 9))) % 10)
    elif old == "safe":
        new = data.draw(st.sampled_from(["a mine", "a guess"]))
    elif name == "Sudoku":
        new = "none"
    else:
        new = env.names[1 - [each.casefold() for each in env.names].index(old.casefold())]
    changed = thought[: claim.start + start] + new + thought[claim.start + end :]
    false = [c for c in check_thought(env, changed, actions) if c.true is False]
    assert [(c.start, c.kind) for c in false] == [(claim.start, claim.kind)]


def slow_place(env):
    """Return where player and boxes are, read from the text of the state."""
    lines = dict(
        line.split(": ", 1)
        for line in env.text.observation(env, COORDINATES, env.text.vocabularies["standard"]).splitlines()
        if re.match(r"[a-z]+: ", line)
    )
    return {k: sorted(re.findall(r"\d+, \d+", v)) for k, v in lines.items()}


@settings(max_examples=60)
@given(
    st.sampled_from(["Sokoban", "SokobanLarge", "FrozenLakeDeterministic"]), st.integers(0, 30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7), st.integers(0, 7), st.booleans()), max_size=6),
)  # fmt: skip
def test_a_slow_checker_that_plays_the_game_agrees(name, seed, plan):
    env = game(name, seed)
    played, over, parts, truths = copy.deepcopy(env), False, [], []
    for action, row, column, honest in plan:
        before = slow_place(played)
        if not over:
            over = played.act(action)[1]
        after = slow_place(played)
        (there,) = after["player"]
        said = there if honest else f"{row}, {column}"
        moved = {*after.get("box", [])} - {*before.get("box", [])}
        parts.append(f"{env.text.actions(env)[action]} to ({said})")
        if moved and row % 2:
            box = moved.pop() if honest else f"{column}, {row}"
            parts[-1] += f", box to ({box})"
            truths.append(said == there and box in after["box"] and box not in before["box"])
        else:
            truths.append(said == there)
    thought = "I think: " + "; ".join(parts) + ". Solved!"
    claims = check_thought(env, thought, [action for action, *_ in plan])
    assert [claim.true for claim in claims if claim.kind == MOVE] == truths
    if name != "FrozenLakeDeterministic":
        assert [claim.true for claim in claims if claim.kind == END] == [played.success]


def test_the_places_of_slips_are_those_where_the_walker_ends_up():
    env = game("FrozenLake", level=["___", "_P_", "__G"])
    (row, *_), reached = divmod(env.position, env.width), set()
    for noise in range(60):
        env.reset(options={"index": 0, "noise": noise})
        env.act(2)
        reached.add(" ".join(map(str, divmod(env.position, 3))))
    env.reset(options={"index": 0})
    listed = sorted(reached - {"1 2"})
    for said, true in ((listed, True), (listed[:1], False), (["0 0", listed[0]], False)):
        thought = f"5 Right to 1 2, slips to {' or '.join(said)}."
        (claim,) = check_thought(env, thought, (2,))
        assert claim.true is true
    assert row == 1


@pytest.mark.parametrize(
    ("thought", "true"),
    [
        ("Player is at (1, 1). The boxes are at [1, 2]. target: (1,3)", [True, True, True]),
        ("player: row 1, column 1; box = 1 3; Target 1 3 and 1 2", [True, False, False]),
        ("no box. The player moves. Somewhere is a target", [False]),
    ],
)
def test_numbers_and_brackets_are_read_as_people_write_them(thought, true):
    env = game("Sokoban", level=["#####", "#PXO#", "#___#", "#####"])
    assert places(*check_thought(env, thought, (3,))) == true


@pytest.mark.parametrize(
    ("thought", "true"),
    [
        ("Right -> (1, 2), box at (1, 3)", [True]),
        ("right leads to 1 2", [True]),
        ("I go Down, then Right to 2 2", [None, True]),
        ("5 Left blocked. 4 Down blocked. 3 Right to 2 2", [True, False, True]),
        ("Right to 1 2. Now Left? Down to 2 1", [True]),
        ("counted down, 5 left, up to 3 moves", []),
    ],
)
def test_a_plan_ends_where_it_can_no_longer_be_followed(thought, true):
    env = game("Sokoban", level=["#####", "#PXO#", "#___#", "#####"])
    claims = check_thought(env, thought, ())
    assert [claim.true for claim in claims if claim.kind == MOVE] == true


@pytest.mark.parametrize(
    ("thought", "claims"),
    [
        ("Plan:\n1. R+\n2. U-\n3. F+", [None, None, None]),
        ("turns to solve it:\n1. R+", [None]),
        ("R+ 90 degrees. R+: 3 faces get better", []),
        ("The cube isn't solved. It is not yet solved. It is never solved.", []),
        ("1 R+ -> 4", [False]),
    ],
)
def test_a_list_of_turns_states_no_outcomes(thought, claims):
    env = game("Cube")
    assert [claim.true for claim in check_thought(env, thought, ())] == claims


def test_a_renamed_turn_may_begin_another():
    env = make("ragen/CubeText-v0", action_names={"R+": "Right", "R-": "Right-back", "U+": "Top"})
    env.reset(seed=0)
    claims = env.claims("<think>3 Right-back leaves 99. 2 Right 1 Top</think><answer>Right-back</answer>")
    assert [(claim.action, claim.true) for claim in claims] == [(1, False), (0, None), (2, None)]


@pytest.mark.parametrize(
    ("thought", "true"),
    [
        ("r1c1 sees 2, 3 and 4, so it is 1.", [True, True]),
        ("r1c1 sees 2 and 3.", [False]),
        ("r1c1 must be 1 or 4.", []),
        ("r1c1 is 1, or 4", []),
        ("r1c1 = 1/4. r1c1 = 1, r1c3 = 4", [True, False]),
    ],
)
def test_what_is_uncertain_about_a_digit_is_no_claim(thought, true):
    env = game("Sudoku", level="_3_4/___1/_1__/2__3")
    assert [claim.true for claim in check_thought(env, thought, ())] == true


def test_claims_of_a_reply_have_their_place_in_it_and_count_executed_actions():
    env = make("ragen/SokobanText-v0", level=["#####", "#PXO#", "#___#", "#####"])
    env.reset(seed=0)
    reply = "<think>Box 1 1. 5 Down to 2 1. 4 Up to 2 1.</think><answer>Down || Up || Right</answer>"
    claims = env.claims(reply)
    assert [(reply[c.start : c.end], c.true, c.fact) for c in claims] == [
        ("Box 1 1", False, "box 1 2"),
        ("5 Down to 2 1", True, "Down to 2 1"),
        ("4 Up to 2 1", False, "Up to 1 1"),
    ]
    result = env.play(reply)
    assert count_predicted(claims, result.executed) == 1
    assert count_predicted(claims[2:], result.executed) == 0


@pytest.mark.parametrize("answer", ["<answer>Down</answer>", "<answer>- down.</answer>", "", "<think>"])
def test_a_claim_is_in_the_thought_also_if_the_same_words_come_before(answer):
    env = make("ragen/SokobanText-v0", level=["#####", "#PXO#", "#___#", "#####"])
    env.reset(seed=0)
    (claim,) = env.claims(f"player 1 1<think>player 1 1</think>{answer}")
    assert (claim.start, claim.end) == (17, 27)


def test_claims_of_a_reply_that_continues_the_thought_begin_with_it():
    env = make("ragen/SokobanText-v0", level=["#####", "#PXO#", "#___#", "#####"], think_prefix=True)
    env.reset(seed=0)
    for reply, place in (("player 1 1</think><answer>Down</answer>", 0), ("<think>player 1 1</think>", 7)):
        assert env.claims(reply)[0].start == place


@pytest.mark.parametrize(
    ("name", "thought"), [("Sokoban", "5 R\u0131ght to 1 2"), ("Bandit", "Sounds r\u0131sky: {}.")]
)
def test_a_letter_that_only_resembles_one_of_a_name_makes_no_claim(name, thought):
    """A dotless i matches an i where case is ignored, but is no i."""
    env = game(name)
    assert check_thought(env, thought.format(env.text.actions(env)[0]), ()) == ()


@pytest.mark.parametrize(
    ("name", "thought"),
    [("Sokoban", "player {} 1"), ("Cube", "turns to solve it: {}"), ("Cube", "R+ leaves {}")],
)
def test_numbers_of_any_length_are_no_error(name, thought):
    """Python refuses to read numbers of more than 4,300 digits."""
    assert not any(claim.true for claim in check_thought(game(name), thought.format("9" * 5000), ()))


def test_other_names_of_actions_are_read():
    level = ["#####", "#PXO#", "#___#", "#####"]
    env = make("ragen/SokobanText-v0", level=level, action_names={"Down": "Right", "Right": "East"})
    env.reset(seed=0)
    claims = env.claims("<think>5 East to 1 2. 4 Right to 2 2</think><answer>East || Right</answer>")
    assert [(claim.true, claim.fact) for claim in claims] == [
        (True, "East to 1 2, box to 1 3"), (False, "Right blocked"),
    ]  # fmt: skip
    assert [claim.action for claim in claims] == [3, 1]


def test_a_game_of_ones_own_checks_thoughts(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    import honest_corridor

    env = honest_corridor.HonestCorridorEnv()
    env.start("3 7")
    thought = "The coin is at 7. Right to 4, Right to 6"
    claims = check_thought(env, thought, (1, 1))
    assert [(claim.true, claim.fact) for claim in claims] == [
        (True, "coin 7"), (True, "Right to 4"), (False, "Right to 5"),
    ]  # fmt: skip


def test_a_name_that_begins_the_other_is_told_apart():
    env = make("ragen/BanditText-v0", level=["Gold", "Gold Rush"])
    env.reset(seed=0)
    first, second = (env.claims(f"<think>Sounds safe: {name}.</think>") for name in ("Gold", "Gold Rush"))
    assert {first[0].true, second[0].true} == {True, False}
