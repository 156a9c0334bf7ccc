"""What conversations say is in their spaces, character by character."""

import copy
import pickle
from contextlib import closing

import gymnasium as gym
import pettingzoo
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space, unflatten
from gymnasium.vector.utils import (
    batch_space,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from ragen_envs.conversation import FreeText, format_reply, make
from ragen_envs.multi_agent import MULTI_AGENT_GAMES
from ragen_envs.registration import game_of, text_ids

TEXTS = list(text_ids())
TABLES = [game.text_id for game in MULTI_AGENT_GAMES]
SIGNS = "█·◎■□☺\U0001f600"
CELLS = ("wall", "empty", "target", "box on target", "box", "player", "player on target")


def vocabularies():
    for env_id in TEXTS:
        for name in make(game_of(env_id)).face.vocabularies:
            yield env_id, {"symbols": name}
        yield env_id, {"observation": "both"}
        yield env_id, {"observation": "coordinates", "think": False}
    yield "ragen/SokobanText-v0", {"symbols": dict(zip(CELLS, SIGNS, strict=True))}
    yield "ragen/BanditText-v0", {"level": ["Ångström", "龍"]}


def assert_in_space(space, text):
    assert space.contains(text)
    assert all(character in space.character_set for character in text)
    short = FreeText(len(text))  # flat texts are as long as the longest of the space
    assert unflatten(short, flatten(short, text)) == text


@pytest.mark.parametrize(("env_id", "settings"), list(vocabularies()))
def test_observations_and_replies(env_id, settings):
    env = gym.make(env_id, **settings)
    names = env.get_wrapper_attr
    text, _ = env.reset(seed=1)
    assert_in_space(env.observation_space, text)
    for reply in (format_reply([names("names")[0]], "√ 漢字"), "no"):
        assert_in_space(env.action_space, reply)
        text, _, terminated, truncated, _ = env.step(reply)
        assert_in_space(env.observation_space, text)
        if terminated or truncated:
            text, _ = env.reset()


@pytest.mark.parametrize("env_id", TABLES)
def test_seats(env_id):
    env = pettingzoo.make("parallel", env_id)
    observations, _ = env.reset(seed=0)
    for agent, told in observations.items():
        assert env.observation_space(agent).contains(told)
        assert_in_space(env.observation_space(agent)["text"], told["text"])


def test_the_space_of_all_strings():
    space = FreeText(20)
    for text in ("", "√", "\0", "\ud800", "\U0010ffff", "a" * 20):
        assert_in_space(space, text)
    for thing in ("a" * 21, None, 3, b"x", ["x"]):
        assert not space.contains(thing)
    assert len(space.character_set) == len(space.character_list) == len(space.characters)
    assert space.characters[-1] == space.character_list[-1] == "\U0010ffff"
    assert space.character_list[3] == "\x03"


def test_equality():
    space = FreeText(20)
    for twin in (FreeText(20), copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert space == twin
        assert space.character_set == twin.character_set
        assert hash(space.character_set) == hash(twin.character_set)
    assert space != FreeText(21)
    assert space != spaces.Text(20, min_length=0)
    assert spaces.Text(20, min_length=0) != space
    assert repr(space) == "FreeText(20)"


def test_samples_are_printable_and_seeded():
    space, twin = FreeText(50), FreeText(50)
    space.seed(3)
    twin.seed(3)
    samples = [space.sample() for _ in range(20)]
    assert samples == [twin.sample() for _ in range(20)]
    assert len(set(samples)) > 10
    assert all(text.isascii() and text in space for text in samples)
    assert len(space.sample(mask=(7, None))) == 7


def test_batches():
    space = FreeText(30)
    batch = batch_space(space, 3)
    assert batch.contains(("√", "", "龍"))
    assert not batch.contains(("√", "", "x" * 31))
    assert batch.contains(batch.sample())
    assert flatten_space(space).contains(flatten(space, "√ \U0010ffff"))


def test_shared_memory():
    space = FreeText(30)
    memory = create_shared_memory(space, n=2)
    for i, text in enumerate(("√ 龍", "")):
        write_to_shared_memory(space, i, text, memory)
    texts = read_from_shared_memory(space, memory, n=2)
    assert (tuple(texts), texts[0], texts[-1:]) == (("√ 龍", ""), "√ 龍", ("",))
    write_to_shared_memory(space, 1, "\ud800", memory)
    assert copy.deepcopy(texts) == ("√ 龍", "\ud800")


def test_vector_envs_in_processes_show_what_those_in_one_process_do():
    with closing(gym.make_vec("ragen/SokobanText-v0", 2, "sync")) as one, closing(
        gym.make_vec("ragen/SokobanText-v0", 2, "async")
    ) as other:  # fmt: skip
        assert other.reset(seed=3)[0] == (first := one.reset(seed=3)[0])
        replies = (format_reply(["Up"], None), "no")
        assert other.step(replies)[0] == (second := one.step(replies)[0])
        assert first != second
