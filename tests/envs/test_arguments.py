"""Arguments of constructors: wrong values are refused when the env is made, through every face."""

import math
import re
from functools import partial

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

from ragen_envs.errors import RagenError
from ragen_envs.game import arguments
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import GAMES

NUMERIC = [game.id for game in GAMES]
COMPILED = [game.id for game in GAMES if game.vector_entry_point]
TABLES = [env_id for game in MULTI_AGENT_GAMES for env_id in (game.id, game.text_id)]

# One wrong value for each argument, through every face; the readers below know more of them.
FIELDS = {
    "Sokoban": {
        "size": 2.0, "boxes": True, "level": b"#####", "reward": "foo", "generator": ["sparse"],
        "search_depth": "2", "levels": 3, "orientation": 8,
    },
    "FrozenLake": {"size": None, "p": "0.5", "success_rate": math.nan, "level": [1, 2], "levels": [],
                   "orientation": True},
    "Cube": {"scramble": "2", "level": []},
    "Countdown": {"numbers": 2.0, "level": 3},
    "Mastermind": {"level": []},
    "Sudoku": {"clues": True, "level": [["#"]]},
    "Minesweeper": {"mines": math.inf, "level": 3},
    "WebShop": {
        "products": 2.0, "catalogue_seed": "2", "observation_mode": 1, "reward": "",
        "level": b"a",
    },
    "Bandit": {"sure": True, "jackpot": None, "chance": None, "gamble": True, "level": True},
}  # fmt: skip


def refusal(field, value):
    return pytest.raises(RagenError, match=re.escape(f"{field} is {value!r}, but must be"))


@pytest.mark.parametrize(
    ("game", "field", "value"),
    [(game, *each) for game, known in FIELDS.items() for each in known.items()],
)
def test_single_envs_conversations_and_vector_envs(game, field, value):
    for make in (
        partial(gym.make, f"ragen/{game}-v0"),
        partial(gym.make, f"ragen/{game}Text-v0"),
        partial(gym.make_vec, f"ragen/{game}-v0", num_envs=2),
    ):
        with refusal(field, value):
            make(**{field: value})


@pytest.mark.parametrize("value", [True, np.True_, math.nan, 2.0, "2", None, [2, 2, 2], 1, 9])
def test_integers(value):
    with refusal("boxes", value):
        arguments.read_count("boxes", value, 2, 8)


@pytest.mark.parametrize("value", [False, math.nan, -math.inf, "0.5", None, [0.5], 1.5])
def test_numbers(value):
    with refusal("p", value):
        arguments.read_number("p", value, 0, 1)


@pytest.mark.parametrize(
    ("limits", "words"),
    [((), "finite number"), ((0,), "finite number >= 0"), ((0, 1), "number from 0 to 1")],
)
def test_a_refused_number_is_told_its_bounds(limits, words):
    with pytest.raises(RagenError, match=f"sure is -inf, but must be a {words}$"):
        arguments.read_number("sure", -math.inf, *limits)


@pytest.mark.parametrize("value", ["foo", "", 1, math.nan, ["sparse"]])
def test_names(value):
    with refusal("reward", value):
        arguments.read_choice("reward", value, ("dense", "sparse"))


@pytest.mark.parametrize("value", [True, 3, b"##", [1, 2], [], [["#"]]])
def test_levels_that_are_no_text_and_no_rows(value):
    with refusal("level", value):
        arguments.read_level("level", value)


@pytest.mark.parametrize("value", ["##/#_", ["##", "#_"], ("##", "#_")])
def test_the_forms_of_a_level(value):
    assert arguments.read_level("level", value) == "##/#_"


def test_a_text_is_a_level_as_it_is():
    """A game of one's own may have line ends in its levels."""
    assert arguments.read_level("level", "\nab\ncd\n") == "\nab\ncd\n"


def test_every_argument_of_every_game_is_covered():
    covered = {"render_mode", "split", "data", "hints"}  # below, and in test_splits.py
    for game in GAMES:
        name = next(name for name in FIELDS if game.name.startswith(name))
        taken = game.env_class.__init__.__annotations__.keys() - {"return"}
        assert taken <= FIELDS[name].keys() | covered, game.name


@pytest.mark.parametrize("value", [(6, True), (6.0, 6), "66", ()])
@pytest.mark.parametrize("env_id", ["ragen/Sokoban-v0", "ragen/FrozenLake-v0"])
def test_pairs_of_sides(env_id, value):
    with refusal("size", value):
        gym.make(env_id, size=value)


@pytest.mark.parametrize("value", [True, math.inf, "1"])
def test_weights_of_the_reward(value):
    weights = {"per_action": 0, "box_on": 1, "box_off": -1, "solved": value}
    with refusal("reward['solved']", value):
        gym.make("ragen/Sokoban-v0", reward=weights)


@pytest.mark.parametrize("env_id", [*NUMERIC, "ragen/SokobanText-v0"])
@pytest.mark.filterwarnings("ignore:.*is not in the possible render_modes")
def test_render_modes(env_id):
    make = gym.envs.registration.load_env_creator(gym.spec(env_id).entry_point)
    for mode in ("foo", ["ansi"]):
        with pytest.raises(RagenError, match=r"render_mode is .* one of None, ansi, (html, )?rgb_array"):
            make(**gym.spec(env_id).kwargs, render_mode=mode)
    with pytest.raises(RagenError, match="render_mode is"):
        gym.make(env_id, render_mode="foo")
    if env_id in COMPILED:
        with pytest.raises(RagenError, match="render_mode is"):
            gym.make_vec(env_id, num_envs=2, render_mode="foo")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_envs", True), ("num_envs", 0), ("num_envs", 1.0),
        ("max_episode_steps", False), ("max_episode_steps", -2), ("max_episode_steps", "5"),
    ],
)  # fmt: skip
def test_arguments_of_vector_envs(field, value):
    for env_id in COMPILED:
        make = gym.envs.registration.load_env_creator(gym.spec(env_id).vector_entry_point)
        with refusal(field, value):
            make(**{"num_envs": 2, **gym.spec(env_id).kwargs, field: value})


@pytest.mark.slow
def test_a_limit_that_no_episode_reaches():
    envs = gym.make_vec("ragen/FrozenLake-v0", num_envs=2, max_episode_steps=2**64)
    envs.reset(seed=0)
    assert not envs.step(np.zeros(2, np.int64))[3].any()


PLAYERS = {
    "sokoban_coop": {"size": 2.0, "boxes": True, "level": 3},
    "frozen_lake_race": {
        "size": None, "p": "0.5", "success_rate": math.nan, "finish": "foo", "level": [1],
    },
    "bandit_market": {"arms": "2", "level": True},
}  # fmt: skip
SHARED = {"players": 2.0, "max_cycles": True, "render_mode": "foo"}


@pytest.mark.parametrize(
    ("game", "field", "value"),
    [(game, *each) for game, known in PLAYERS.items() for each in (known | SHARED).items()],
)
def test_games_for_several_players(game, field, value):
    for face, env_id in (
        ("parallel", f"ragen/{game}-v0"),
        ("parallel", f"ragen/{game}_text-v0"),
        ("aec", f"ragen/{game}-v0"),
    ):
        with refusal(field, value):
            pettingzoo.make(face, env_id, **{field: value})


@pytest.mark.parametrize("env_id", TABLES)
def test_human_rendering_prints_the_text(env_id, capsys):
    shown, text = (pettingzoo.make("parallel", env_id, render_mode=mode) for mode in ("human", "ansi"))
    shown.reset(seed=0)
    text.reset(seed=0)
    assert shown.render() is None
    assert capsys.readouterr().out == f"{text.render()}\n"


def test_numbers_of_numpy_are_numbers():
    env = gym.make("ragen/FrozenLake-v0", size=np.int64(5), success_rate=np.float32(0.5))
    assert env.unwrapped.distribution == "frozen_lake-5x5-0.8"
    assert env.unwrapped.success_rate == 0.5


@pytest.mark.parametrize("env_id", NUMERIC)
def test_the_level_of_an_instance_can_be_played_again(env_id):
    first = gym.make(env_id).unwrapped
    first.reset(seed=3)
    level = first.instance.level
    for form in (level, level.split("/") if "WebShop" not in env_id else [level]):
        again = gym.make(env_id, level=form).unwrapped
        again.reset(options={"split": "test", "index": 5})
        assert (again.instance.level, again.instance.key) == (level, first.instance.key)


@pytest.mark.parametrize("env_id", [game.id for game in MULTI_AGENT_GAMES])
def test_the_level_of_several_players_can_be_played_again(env_id):
    first = pettingzoo.make("parallel", env_id)
    first.reset(seed=3)
    level = first.unwrapped.instance.level
    for form in (level, level.split("/")):
        again = pettingzoo.make("parallel", env_id, level=form)
        again.reset(seed=4)
        assert again.unwrapped.instance.level == level


@pytest.mark.parametrize("env_id", ["ragen/Sokoban-v0", "ragen/FrozenLake-v0"])
def test_levels_have_the_forms_of_a_level(env_id):
    first = gym.make(env_id).unwrapped
    texts = [first.reset(seed=seed) and first.instance.level for seed in range(3)]
    forms = [texts[0], texts[1].split("/"), tuple(texts[2].split("/"))]
    for make in (gym.make, gym.make_vec):
        given, plain = make(env_id, levels=forms), make(env_id, levels=texts)
        for index in range(3):
            options = {"index": index}
            np.testing.assert_array_equal(given.reset(options=options)[0], plain.reset(options=options)[0])


def test_a_wrong_one_of_several_levels_is_named():
    with refusal("levels[1]", 3):
        gym.make("ragen/Sokoban-v0", levels=["###", 3])


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_a_fixed_level_has_every_number(make):
    env = make("ragen/FrozenLake-v0", level=["P__O", "____", "____", "___G"])
    first, _ = env.reset(options={"split": "test", "index": 7})
    second, _ = env.reset(options={"index": 8})
    np.testing.assert_array_equal(first, second)


def test_one_level_or_several():
    rows = ["P__O", "____", "____", "___G"]
    with pytest.raises(RagenError, match="give one of the arguments"):
        gym.make("ragen/FrozenLake-v0", level=rows, levels=["/".join(rows)])
