"""The thoughts that go with actions: true of the state, and leading to the actions."""

import re
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest

from ragen_envs.conversation import make
from ragen_envs.game.oracle import Budget
from ragen_envs.game.text import explain
from ragen_envs.games.cube.oracle import solution


def _game(name, level, **keywords):
    env = gym.make(f"ragen/{name}-v0", level=level, **keywords).unwrapped
    env.reset(seed=0)
    return env


def _turn(limit):
    return Budget(actions=10, turns=5, actions_per_turn=limit)


def test_sokoban_tells_places_then_where_each_move_leads():
    env = _game("Sokoban", ["#####", "#PXO#", "#___#", "#####"])
    assert explain(env, (2, 3), _turn(5)) == (
        "Places as row column. Player 1 1. Box 1 2. Target 1 3. Limit for this turn: 5, counted down: "
        "5 Left blocked. 4 Right to 1 2, box to 1 3. Solved."
    )
    assert env.instance.level == "#####/#PXO#/#___#/#####"
    assert env.cells.count(3) == 0  # no box was moved


def test_sokoban_tells_every_box_and_target():
    env = _game("Sokoban", ["######", "#PX_O#", "#__XO#", "######"])
    thought = explain(env, (1,), _turn(1))
    assert "Box 1 2, 2 3. Target 1 4, 2 4. Limit for this turn: 1, counted down: 1 Down to 2 1." in thought


def test_lake_stops_where_the_game_does():
    env = _game("FrozenLakeDeterministic", ["P_", "OG"])
    assert explain(env, (1, 2), _turn(2)) == (
        "Places as row column. Player 0 0. Goal 1 1. Hole 1 0. Limit for this turn: 2, counted down: "
        "2 Down to 1 0, a hole."
    )
    assert explain(env, (0, 2, 1), _turn(3)).endswith(
        "3 Left stays at 0 0. 2 Right to 0 1. 1 Down to 1 1, the goal."
    )


def test_slippery_lake_tells_where_the_first_move_may_lead():
    env = _game("FrozenLake", ["___", "_P_", "__G"])
    thought = explain(env, (2, 1), _turn(5))
    assert thought.endswith(
        "No hole. Limit for this turn: 5, counted down: 5 Right to 1 2, slips to 2 1 or 0 1. 4 Down."
    )


@pytest.mark.parametrize("name", ["Bandit", "BanditRev", "BanditTrap"])
def test_bandit_tells_which_name_sounds_risky_whatever_pays(name):
    env = gym.make(f"ragen/{name}-v0").unwrapped
    for seed in range(20):
        env.reset(seed=seed)
        sounds = {}
        for arm in (0, 1):
            told = re.fullmatch(
                r"Sounds safe: (.+)\. Sounds risky: (.+)\. My choice\. (Sounds \w+): (.+)\.",
                explain(env, (arm,), _turn(1)),
            )
            assert set(told.groups()[:2]) == set(env.names)
            assert told[4] == env.names[arm]
            assert told[4] == told[1 if told[3] == "Sounds safe" else 2]
            sounds[told[3]] = arm
        risky_is_sure = sounds["Sounds risky"] == env.sure_arm
        assert risky_is_sure == (name == "BanditRev")


def test_cube_counts_the_turns_that_are_left():
    env = gym.make("ragen/Cube-v0", scramble=3).unwrapped
    env.reset(seed=3)
    best = solution(env.state)
    thought = explain(env, best, _turn(5))
    assert thought.startswith(f"Turns to solve it: {len(best)}. Limit for this turn: 5, counted down: 5 ")
    assert thought.endswith("leaves 0. Solved.")
    undone = explain(env, (best[0], best[0] ^ 1), _turn(5))
    assert f"leaves {len(best) - 1}. " in undone
    assert undone.endswith(f"leaves {len(best)}.")


def test_a_game_that_explains_nothing_gets_the_plan_in_words(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "examples")
    import lights_out

    env = lights_out.LightsOutEnv()
    env.reset(seed=1)
    assert explain(env, (4, 0), _turn(5)) == "My plan: B2, then A1."


def test_renamed_turns_of_the_cube_have_their_new_names():
    env = make("ragen/CubeText-v0", action_names={"R+": "turn right"})
    env.reset(seed=0)
    assert env.explain([0]).count("turn right") == 1


def test_new_names_of_actions_may_be_numbers_or_names_of_others():
    names = {"Up": 1, "Down": "Left", "Left": "Down", "Right": 4}
    env = make("ragen/SokobanText-v0", action_names=names, demonstrations=1)
    env.reset(seed=1)
    assert explain(_named("left", "left fast"), (0, 1), _turn(2), {"left": "west", "left fast": "run"}) == (
        "My plan: west, then run."
    )


def _named(*names):
    """Return a game that explains nothing and has actions of these names."""
    return SimpleNamespace(text=SimpleNamespace(actions=lambda _: names))


def test_thoughts_of_actions_that_are_not_the_oracles_are_true_too():
    env = _game("Sudoku", "_3_4/___1/_1__/2__3")
    assert explain(env, ("r1c1 = 1", "r2c3 = 3"), _turn(2)) == (
        "r1c1 sees 2 3 4, so it is 1. r2c3 sees 1 4, I try 3."
    )


def test_a_guess_that_is_repeated_tells_nothing_new():
    env = _game("Mastermind", "RGBY")
    env.step("R R G B")
    same, other = (explain(env, (guess,), _turn(1)) for guess in ("R R G B", "O O P P"))
    assert same.endswith("is not one of them, and its answer tells nothing new.")
    assert other.endswith("is not one of them, but its answer tells more.")


def test_one_mine_is_one():
    rules = make("ragen/MinesweeperText-v0", mines=1).reset(seed=0)[0]
    assert "5 columns with 1 mine. Open" in rules
