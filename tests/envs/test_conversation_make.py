"""``make``, the way into every conversation: ids, envs, overrides, games from outside, refusals."""

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from replies import TEXTS, say

from ragen_envs import GAMES, registration
from ragen_envs.conversation import (
    ConversationSettings,
    ConversationWrapper,
    make,
)
from ragen_envs.errors import GameError, RagenError
from ragen_envs.game.base import GameEnv
from ragen_envs.games.bandit import BanditEnv
from ragen_envs.games.sokoban import SokobanEnv
from ragen_envs.levels.splits import SPLITS
from ragen_envs.registration import game_of, register_text

NUMERIC = [game.id for game in GAMES]
TEXT, GAME = "ragen/SokobanText-v0", "ragen/Sokoban-v0"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def transcript(env, seed=3):
    """Return all that an episode of the first action says and pays."""
    text, info = env.reset(seed=seed)
    name, think = env.get_wrapper_attr("names")[0], env.get_wrapper_attr("settings").think
    log = [(text, info)]
    while True:
        log.append(env.step(say(name, think=think)))
        if log[-1][2] or log[-1][3]:
            return log


@pytest.mark.parametrize("text_id", TEXTS)
def test_a_text_id_is_the_conversation_of_gym_make(text_id):
    env = make(text_id)
    assert type(env) is ConversationWrapper
    assert isinstance(env.env, GameEnv)
    assert transcript(env) == transcript(gym.make(text_id))


@pytest.mark.parametrize("text_id", TEXTS)
def test_overrides_are_those_of_gym_make(text_id):
    given = {"max_turns": 2, "think": False, "actions_per_turn": 1}
    env = make(text_id, **given)
    assert {name: getattr(env.settings, name) for name in given} == given
    assert transcript(env) == transcript(gym.make(text_id, **given))


@pytest.mark.parametrize("game_id", NUMERIC)
def test_a_game_has_the_default_settings(game_id):
    env = make(game_id)
    assert env.settings == ConversationSettings()
    assert transcript(env) == transcript(ConversationWrapper(gym.make(game_id)))


@pytest.mark.parametrize("game_id", NUMERIC)
def test_an_env_keeps_its_wrappers(game_id):
    game = gym.make(game_id)
    env = make(game, max_turns=3)
    assert env.env is game
    assert env.settings == ConversationSettings(max_turns=3)


def test_overrides_of_the_game_go_over_those_of_the_id():
    env = make("ragen/SokobanLargeText-v0", boxes=1, actions_per_turn=2)
    assert env.unwrapped.distribution == "sokoban-8x8-1-depth10"
    assert env.settings.actions_per_turn == 2
    env = make("ragen/SokobanNewVocabText-v0", size=7)
    assert (env.settings.symbols, env.unwrapped.distribution) == ("new_vocab", "sokoban-7x7-1")
    assert make("ragen/SokobanNewVocabText-v0", symbols="standard").settings.symbols == "standard"


def test_a_game_has_no_limit_of_time_but_an_env_keeps_its_own():
    endless = {"max_turns": 1000, "max_actions": 1000, "actions_per_turn": 1}
    level = ["######", "#P___#", "#__X_#", "#__O_#", "#____#", "######"]
    for env, end in (
        (make(GAME, level=level, **endless), None),
        (make(TEXT, level=level, **endless), None),
        (make(gym.make(GAME, level=level), **endless), "truncated"),
    ):
        env.reset(seed=0)
        for _ in range(100):
            result = env.play(say("Up"))
        assert result.end == end


@pytest.mark.parametrize("game", [TEXT, GAME])
def test_pictures_need_no_render_mode(game):
    env = make(game, observation="image")
    env.reset(seed=0)
    (picture,) = env.pictures
    assert picture.dtype == np.uint8
    assert make(game, render_mode="ansi").render_mode == "ansi"
    assert make(SokobanEnv(render_mode="rgb_array"), observation="image").render_mode == "rgb_array"
    with pytest.raises(RagenError, match="must be rgb_array"):
        make(SokobanEnv(), observation="image")


def test_an_id_may_name_the_module_that_registers_it():
    env = make("ragen_envs:ragen/SokobanText-v0", max_turns=2)
    assert env.settings == make("ragen/SokobanText-v0", max_turns=2).settings


class PlainBandit(BanditEnv):
    """A game from outside, which knows nothing of pictures."""

    def __init__(self):
        super().__init__()


@pytest.fixture
def outside(monkeypatch):
    """Ids of games that were registered with Gymnasium alone: by a string, and by the class."""
    monkeypatch.setattr(gym.envs.registration, "registry", dict(gym.registry))
    monkeypatch.setattr(gym, "registry", gym.envs.registration.registry)
    gym.register("elsewhere/ByName-v3", entry_point=f"{__name__}:PlainBandit")
    gym.register("elsewhere/ByClass-v0", entry_point=PlainBandit, max_episode_steps=1)
    return ["elsewhere/ByName-v3", "elsewhere/ByClass-v0"]


def test_a_game_that_was_registered_with_gymnasium_alone(outside):
    expected = transcript(make("ragen/Bandit-v0", max_turns=2))
    for number, game_id in enumerate(outside):
        assert transcript(make(game_id, max_turns=2)) == expected
        text_id = f"elsewhere/Text{number}-v0"
        register_text(text_id, game_id, max_turns=2)
        assert game_of(text_id) == game_id
        assert transcript(make(text_id)) == transcript(gym.make(text_id)) == expected
        with pytest.raises(RagenError, match=f"{game_id} has no setting 'size'; known are "):
            make(text_id, size=3)


def test_a_text_id_of_a_text_id_names_the_game(outside):
    register_text("elsewhere/TwiceText-v0", TEXT)
    for attempt in (make, gym.make):
        with pytest.raises(RagenError, match=f"{TEXT} is a conversation already.* {GAME}$"):
            attempt("elsewhere/TwiceText-v0")


@pytest.fixture
def corridor(monkeypatch):
    """The example's module; afterwards nothing of it is left for other tests."""
    before = set(gym.registry)
    monkeypatch.setattr(registration, "_added", dict(registration._added))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield __import__("corridor")
    sys.modules.pop("corridor")
    for env_id in set(gym.registry) - before:
        del gym.registry[env_id]


def test_a_game_without_one_of_its_parts_names_it(corridor):
    class NoStart(corridor.CorridorEnv):
        start = GameEnv.start

    gym.register("mine/NoStart-v0", NoStart)
    with pytest.raises(RagenError, match=r"mine/NoStart-v0 cannot be made: .*start"):
        make("mine/NoStart-v0")


def test_the_number_of_a_level_decides_its_split(corridor):
    """However small: it is hashed."""

    class Numbered(corridor.CorridorEnv):
        def draw_level(self, rng):
            return f"{rng.integers(5)} {rng.integers(5, 12)}"

        def level_key(self, level):
            return int(level.split()[1])

    env, split_of_coin = Numbered(), {}
    for split in SPLITS:
        for index in range(30):
            env.reset(options={"split": split, "index": index})
            assert split_of_coin.setdefault(env.coin, split) == split
    assert set(split_of_coin.values()) == set(SPLITS)


def test_a_game_with_a_spec_from_outside(corridor):
    assert corridor.__name__ == "corridor"
    env = make("mine/CorridorText-v0", max_actions=20)
    env.reset(options={"split": "test", "index": 3})
    again = make("mine/CorridorText-v0")
    again.reset(options={"split": "test", "index": 3})
    assert env.unwrapped.instance == again.unwrapped.instance
    assert env.unwrapped.instance.distribution == "CorridorEnv"
    assert env.settings.max_actions == 20


@pytest.mark.parametrize("wrap", [make, ConversationWrapper])
@pytest.mark.parametrize("made", [make, gym.make])
def test_a_conversation_is_not_wrapped_again(made, wrap):
    with pytest.raises(RagenError, match="is a conversation already"):
        wrap(made(TEXT))


@pytest.mark.parametrize(
    "name",
    ["ragen/Chess-v0", "ragen/SokobanText", "nobody/Game-v0", "a b", ""],
)
def test_an_unknown_id_is_named(name):
    with pytest.raises(RagenError, match=rf"^unknown game '{name}'; `ragen games` lists"):
        make(name)


@pytest.mark.parametrize("module", ["no_such_module", "", "./mine.py"])
def test_a_module_that_cannot_be_imported_is_named(module):
    with pytest.raises(RagenError, match=rf"^the module '{module}' of the game 'Foo-v0' cannot be imported"):
        make(f"{module}:Foo-v0")


@pytest.mark.parametrize(
    ("game", "overrides", "words"),
    [
        (TEXT, {"turns": 3}, "has no setting 'turns'; known are .*max_turns.*size"),
        (TEXT, {"game": "ragen/FrozenLake-v0"}, "has no setting 'game'; known are "),
        (TEXT, {"max_turns": 0}, "max_turns is 0"),
        (GAME, {"size": -1}, "size"),
        (
            SokobanEnv(),
            {"size": 7, "max_turns": 2, "level": []},
            "^size, level cannot be set on .*id",
        ),
        (SokobanEnv(), {"render_mode": "ansi"}, "render_mode cannot be set"),
        ("Pendulum-v1", {}, "actions of the environment are Box"),
    ],
)
def test_what_cannot_be_made_is_explained(game, overrides, words):
    with pytest.raises(RagenError, match=words):
        make(game, **overrides)


class Lacking(gym.Wrapper):
    """A game whose info lacks a key, after a reset or after an action."""

    text = SokobanEnv.text

    def __init__(self, key, in_reset):
        super().__init__(SokobanEnv())
        self.key, self.in_reset = key, in_reset

    def reset(self, **keywords):
        observation, info = super().reset(**keywords)
        return observation, self.without(info) if self.in_reset else info

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, self.without(info)

    def without(self, info):
        return {name: value for name, value in info.items() if name != self.key}


@pytest.mark.parametrize(
    ("key", "in_reset"), [("success", True), ("success", False), ("action_is_effective", True)]
)
def test_a_game_whose_info_lacks_a_key_is_named(key, in_reset):
    env = ConversationWrapper(Lacking(key, in_reset))

    def played():
        env.reset(seed=0)
        env.step(say("Up"))

    with pytest.raises((KeyError, GameError), match=key):
        played()


@pytest.mark.parametrize("history", ["full", "last", "none"])
def test_the_closing_message_has_its_picture_too(history):
    env = make("ragen/SokobanText-v0", observation="image", history=history, max_turns=3)
    env.reset(seed=0)
    while env.end is None:
        env.play("<think>so</think><answer>Up || Left</answer>")
    asked = [message for message in env.messages if message["role"] == "user"]
    assert "picture shows the current state" in asked[-1]["content"]
    assert len(env.pictures) == len(asked)
    assert np.array_equal(env.pictures[-1], env.render())


@pytest.mark.parametrize(
    ("name", "told"), [("Taxi-v1", "is deprecated"), ("ragen/Sokoban-v7", "versioned environments")]
)
def test_another_version_of_a_game_is_named(name, told):
    with pytest.raises(RagenError, match=f"unknown game '{name}': .*{told}"):
        make(name)


def test_a_game_whose_package_is_not_installed_is_no_wrong_entry_point():
    with pytest.raises(RagenError, match=r"cannot be loaded: .*not installed") as failed:
        make("LunarLander-v3")
    assert "module:Class" not in str(failed.value)


def test_success_below_zero_needs_the_goal():
    told, _ = make("MountainCar-v0", max_turns=1).reset(seed=0)
    assert "if the game ends before your turns or actions are used up and your rewards sum" in told
