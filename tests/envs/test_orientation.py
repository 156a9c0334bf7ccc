"""Levels in eight orientations, and actions under other names."""

import gymnasium as gym
import pytest

from ragen_envs.conversation import make
from ragen_envs.errors import RagenError
from ragen_envs.game.grids import oriented

COMPASS = {"Up": "Left", "Left": "Up", "Down": "South"}


def test_orientations_are_the_symmetries_of_a_square():
    images = [oriented("ab/cd", orientation) for orientation in range(8)]
    assert images[:5] == ["ab/cd", "bd/ac", "dc/ba", "ca/db", "ba/dc"]
    assert len(set(images)) == 8


@pytest.mark.parametrize("game", ["ragen/SokobanText-v0", "ragen/FrozenLakeText-v0"])
def test_random_play_and_the_optimum_are_the_same_in_every_orientation(game):
    facts, levels = set(), set()
    for orientation in range(8):
        env = make(game, orientation=orientation)
        env.reset(options={"split": "test", "index": 3})
        instance = env.unwrapped.instance
        levels.add(instance.level)
        facts.add((env.oracle().value, env.random_baseline().success, instance.key))
    assert (len(facts), len(levels)) == (1, 8)


def test_orientations_that_cannot_be_played():
    with pytest.raises(RagenError, match="only square levels"):
        make("ragen/SokobanText-v0", size=(6, 7), orientation=1)
    with pytest.raises(RagenError, match="orientation is for single envs"):
        gym.make_vec("ragen/Sokoban-v0", num_envs=2, orientation=1)
    level = ["#######", "#PX__O#", "#######"]
    env = make("ragen/SokobanText-v0", level=level, orientation=1).unwrapped
    assert env.reset()[0].shape == env.observation_space.shape == (7, 3)


def test_actions_under_other_names():
    env = make("ragen/SokobanText-v0", action_names=COMPASS, demonstrations=1)
    env.reset(options={"split": "test", "index": 0})
    assert env.names == ("Left", "South", "Up", "Right")
    assert "Actions: Left, South, Up, Right." in env.messages[0]["content"]
    assert "Down" not in env.examples[0].reply
    plain = make("ragen/SokobanText-v0")
    plain.reset(options={"split": "test", "index": 0})
    for mine, theirs in (("South", "Down"), ("Left", "Up"), ("Up", "Left")):
        for each, name in ((env, mine), (plain, theirs)):
            each.play(f"<think>go</think><answer>{name}</answer>")
        assert env.unwrapped.cells == plain.unwrapped.cells


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"Jump": "Hop"}, "action_names has 'Jump', but the actions are Up"),
        ({"Up": "down"}, "each must be its own name"),
        ({"Up": "a||b"}, "each must be its own name"),
        (["North"], "must be a mapping"),
    ],
)
def test_names_that_cannot_be_used(names, said):
    with pytest.raises(RagenError, match=said.replace("|", r"\|")):
        make("ragen/SokobanText-v0", action_names=names).reset(seed=0)
    with pytest.raises(RagenError, match="actions are words"):
        make("ragen/CountdownText-v0", action_names={"a": "b"})
