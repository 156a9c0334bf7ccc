"""The OpenEnv server and client, over the loopback, play the games of ``gym.make``."""

import gymnasium as gym
import pytest
from openenv.core import GenericEnvClient

from ragen_envs.adapters.openenv_server import GameAction, GameClient, GameEnvironment, app
from ragen_envs.errors import RagenError

REPLIES = [
    "<think>a</think><answer>Down || Right</answer>",
    "hm",
    "<think>b</think><answer>Up</answer>",
]


@pytest.mark.parametrize("start", [{"seed": 4}, {"split": "test", "index": 9}])
def test_client_plays_the_same_game(url, start):
    env = gym.make("ragen/SokobanText-v0")
    options = {name: value for name, value in start.items() if name != "seed"}
    prompt, _ = env.reset(seed=start.get("seed"), options=options)
    with GameClient(base_url=url).sync() as game:
        told = game.reset(**start)
        assert told.observation.text == prompt
        assert told.observation.messages == env.get_wrapper_attr("messages")
        done, number = False, 0
        while not done:
            reply = REPLIES[number % len(REPLIES)]
            told = game.step(GameAction(reply=reply))
            text, reward, terminated, truncated, info = env.step(reply)
            done, number = terminated or truncated, number + 1
            assert (told.observation.text, told.reward, told.done) == (text, reward, done)
            assert (told.observation.success, told.observation.end) == (
                info["success"],
                info["end"],
            )
            assert game.state().step_count == number


def test_a_game_of_words_is_served_too(shop_url):
    env = gym.make("ragen/WebShopText-v0")
    prompt, _ = env.reset(options={"split": "test", "index": 0})
    with GameClient(base_url=shop_url).sync() as game:
        told = game.reset(split="test", index=0)
        assert told.observation.text == prompt
        while not told.done:
            (action,) = env.get_wrapper_attr("oracle")().actions
            reply = f"<think>a</think><answer>{action}</answer>"
            told = game.step(GameAction(reply=reply))
            assert told.observation.text == env.step(reply)[0]
        assert (told.reward, told.observation.success) == (1.0, True)


def test_an_environment_that_does_not_say_whether_the_goal_is_reached():
    game = GameEnvironment("CliffWalking-v1", actions=["up", "right", "down", "left"])
    assert game.reset(seed=0).success is None
    assert game.step(GameAction(reply="<think>a</think><answer>up</answer>")).success is None


def test_sessions_do_not_share_a_game(url):
    with GameClient(base_url=url).sync() as one, GameClient(base_url=url).sync() as other:
        first = one.reset(seed=1).observation.text
        assert other.reset(seed=2).observation.text != first
        one.step(GameAction(reply="hm"))
        assert other.state().step_count == 0


def test_a_client_that_knows_nothing_of_the_suite(url):
    with GenericEnvClient(base_url=url).sync() as game:
        game.reset(seed=0)
        told = game.step({"reply": REPLIES[0]})
        assert told.observation["text"].startswith("Executed: Down")


def test_unknown_game(monkeypatch):
    monkeypatch.setenv("RAGEN_GAME", "ragen/Chess-v0")
    with pytest.raises(RagenError, match="unknown game 'ragen/Chess-v0'"):
        app()


def test_a_server_of_pictures_is_refused():
    with pytest.raises(RagenError, match="observation is 'image', but must be one of"):
        app("ragen/SokobanText-v0", observation="image")
