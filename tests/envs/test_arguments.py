"""Arguments of constructors: wrong values are refused when the env is made, through every face."""

import math
import re
import sys

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

from ragen_envs.game.errors import RagenError
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES, text_ids

NUMERIC = [game.id for game in GAMES]
COMPILED = [game.id for game in GAMES if game.vector_entry_point]
TABLES = [env_id for game in MULTI_AGENT_GAMES for env_id in (game.id, game.text_id)]

NO_INTEGERS = (True, False, np.True_, math.nan, math.inf, 2.0, "2", None, [2, 2, 2])
NO_NUMBERS = (True, False, math.nan, math.inf, -math.inf, "0.5", None, [0.5], 10**400)
NO_NAMES = ("foo", "", 1, True, math.nan, ["sparse"])
NO_LEVELS = (True, 3, "######", [1, 2], [], math.nan, [["#"]])
NO_TEXTS = (True, 3, 1.5, ["a"], b"a")
FIELDS = {
    "Sokoban": {
        "size": NO_INTEGERS, "boxes": NO_INTEGERS, "level": NO_LEVELS, "reward": NO_NAMES,
        "generator": NO_NAMES, "search_depth": tuple(v for v in NO_INTEGERS if v is not None),
    },
    "FrozenLake": {
        "size": NO_INTEGERS, "p": NO_NUMBERS, "success_rate": NO_NUMBERS, "level": NO_LEVELS
    },
    "Cube": {"scramble": NO_INTEGERS, "level": NO_LEVELS},
    "Countdown": {"numbers": NO_INTEGERS, "level": NO_TEXTS},
    "Mastermind": {"level": NO_TEXTS},
    "Sudoku": {"clues": NO_INTEGERS, "level": NO_LEVELS},
    "Minesweeper": {"mines": NO_INTEGERS, "level": NO_LEVELS},
    "WebShop": {
        "products": NO_INTEGERS, "catalogue_seed": NO_INTEGERS, "observation_mode": NO_NAMES,
        "reward": NO_NAMES, "hints": (1, 0, None, "yes"), "level": NO_TEXTS, "data": (True, 3, ["a"]),
    },
    "Bandit": {
        "sure": NO_NUMBERS, "jackpot": NO_NUMBERS, "chance": NO_NUMBERS, "gamble": NO_NAMES,
        "level": NO_LEVELS,
    },
}  # fmt: skip
SINGLE = [
    (game, field, value)
    for game, known in FIELDS.items()
    for field, values in known.items()
    for value in values
]


def refusal(field, value):
    return pytest.raises(RagenError, match=re.escape(f"{field} is {value!r}, but must be"))


@pytest.mark.parametrize("suffix", ["", "Text"])
@pytest.mark.parametrize(("game", "field", "value"), SINGLE)
def test_single_envs_and_conversations(game, field, value, suffix):
    with refusal(field, value):
        gym.make(f"ragen/{game}{suffix}-v0", **{field: value})


@pytest.mark.parametrize(("game", "field", "value"), SINGLE)
def test_vector_envs(game, field, value):
    with refusal(field, value):
        gym.make_vec(f"ragen/{game}-v0", num_envs=2, **{field: value})


def test_every_argument_of_every_game_is_covered():
    covered = {"render_mode", "split"}  # below, and in test_splits.py
    for game in GAMES:
        name = next(name for name in FIELDS if game.name.startswith(name))
        arguments = game.env_class.__init__.__annotations__.keys() - {"return"}
        assert arguments <= FIELDS[name].keys() | covered, game.name


@pytest.mark.parametrize("value", [(6, True), (True, 6), (6.0, 6), (6, math.nan), "66", (), {6: 6}])
@pytest.mark.parametrize("env_id", ["ragen/Sokoban-v0", "ragen/FrozenLake-v0"])
def test_pairs_of_sides(env_id, value):
    with refusal("size", value):
        gym.make(env_id, size=value)


@pytest.mark.parametrize("value", [True, math.nan, math.inf, "1", None])
def test_weights_of_the_reward(value):
    weights = {"per_action": 0, "box_on": 1, "box_off": -1, "solved": value}
    with refusal("reward['solved']", value):
        gym.make("ragen/Sokoban-v0", reward=weights)


@pytest.mark.parametrize("mode", ["foo", "", 3, True, ["ansi"]])
@pytest.mark.parametrize("env_id", [*NUMERIC, *text_ids()])
@pytest.mark.filterwarnings("ignore:.*is not in the possible render_modes")
def test_render_modes(env_id, mode):
    make = gym.envs.registration.load_env_creator(gym.spec(env_id).entry_point)
    with pytest.raises(
        RagenError, match=r"render_mode is .*None or one of ansi, (html, )?rgb_array"
    ):
        make(**gym.spec(env_id).kwargs, render_mode=mode)
    if isinstance(mode, str):
        with pytest.raises(RagenError, match="render_mode is"):
            gym.make(env_id, render_mode=mode)
    if env_id in COMPILED:
        with pytest.raises(RagenError, match="render_mode is"):
            gym.make_vec(env_id, num_envs=2, render_mode=mode)


VECTOR = [
    *(("num_envs", value) for value in (True, 0, -1, 1.0, "2", None, math.nan)),
    *(("max_episode_steps", value) for value in (True, False, 0, -2, 1.0, "5", math.nan)),
    *(("copy", value) for value in (1, 0, None, "yes", np.True_)),
    *(("autoreset_mode", value) for value in ("foo", 1, True, None)),
]


@pytest.mark.parametrize(("field", "value"), VECTOR)
@pytest.mark.parametrize("env_id", COMPILED)
def test_arguments_of_vector_envs(env_id, field, value):
    make = gym.envs.registration.load_env_creator(gym.spec(env_id).vector_entry_point)
    with pytest.raises(RagenError, match=re.escape(f"{field} is {value!r}, but must be")):
        make(**{"num_envs": 2, **gym.spec(env_id).kwargs, field: value})


@pytest.mark.parametrize("limit", [sys.maxsize, 2**64])
@pytest.mark.parametrize("env_id", COMPILED)
def test_limits_that_no_episode_reaches(env_id, limit):
    envs = gym.make_vec(env_id, num_envs=2, max_episode_steps=limit)
    envs.reset(seed=0)
    assert not envs.step(np.zeros(2, np.int64))[3].any()
    assert not envs.rollout(np.zeros((9, 2), np.int64)).truncations.any()


PLAYERS = {
    "sokoban_coop": {"size": NO_INTEGERS, "boxes": NO_INTEGERS, "level": (True, 3, ["P"])},
    "frozen_lake_race": {
        "size": NO_INTEGERS, "p": NO_NUMBERS, "success_rate": NO_NUMBERS, "finish": NO_NAMES,
        "level": (True, 3, ["P"]),
    },
    "bandit_market": {"arms": NO_INTEGERS, "level": (True, 3, ["P"])},
}  # fmt: skip
SHARED = {
    "players": NO_INTEGERS,
    "max_cycles": tuple(value for value in NO_INTEGERS if value is not None),
    "render_mode": ("foo", "", 3, True, ["ansi"]),
}


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("game", "field", "value"),
    [
        (game, field, value)
        for game, known in PLAYERS.items()
        for field, values in {**known, **SHARED}.items()
        for value in values
    ],
)
def test_games_for_several_players(game, field, value, text):
    env_id = f"ragen/{game}_text-v0" if text else f"ragen/{game}-v0"
    with refusal(field, value):
        pettingzoo.make("parallel", env_id, **{field: value})
    if not text:
        with refusal(field, value):
            pettingzoo.make("aec", env_id, **{field: value})


@pytest.mark.parametrize("env_id", TABLES)
def test_human_rendering_prints_the_text(env_id, capsys):
    shown, told = (
        pettingzoo.make("parallel", env_id, render_mode=mode) for mode in ("human", "ansi")
    )
    shown.reset(seed=0)
    told.reset(seed=0)
    assert shown.render() is None
    assert capsys.readouterr().out == f"{told.render()}\n"


def test_numbers_of_numpy_are_numbers():
    env = gym.make("ragen/FrozenLake-v0", size=np.int64(5), success_rate=np.float32(0.5))
    assert env.unwrapped.distribution == "frozen_lake-5x5-0.8"
    assert env.unwrapped.success_rate == 0.5


def test_a_level_in_one_string_gets_a_hint():
    with pytest.raises(RagenError, match=r"must be a list of strings; use level\.splitlines\(\)"):
        gym.make("ragen/Sokoban-v0", level="####\n#P_#")


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_a_fixed_level_has_no_index(make):
    env = make("ragen/FrozenLake-v0", level=["P__O", "____", "____", "___G"])
    env.reset(seed=0)
    with pytest.raises(RagenError, match="index cannot be combined with level"):
        env.reset(options={"split": "test", "index": 7})
