import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import QUICK, REPLIES, say

from ragen_envs import GAMES
from ragen_envs.conversation import (
    ConversationWrapper,
    format_reply,
    make,
    make_vector,
)
from ragen_envs.errors import InstanceError, RagenError

GAME_IDS = [game.id for game in GAMES]
SOKOBAN = "ragen/Sokoban-v0"


def first_names(game):
    """Return the names of the actions of a game's first level."""
    conversation = make(game)
    conversation.reset(seed=0)
    return conversation.names


ACTIONS = sorted({name for game in GAME_IDS for name in first_names(game)})
MINE = dict(
    zip(
        ("wall", "empty", "target", "box on target", "box", "player", "player on target"),
        "█·◎■□☺☻",
        strict=True,
    )
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "max_turns": st.integers(1, 6),
        "actions_per_turn": st.integers(1, 6),
        "max_actions": st.integers(1, 12),
        "think": st.booleans(),
        "history": st.sampled_from(["full", "last", "none"]),
        "history_turns": st.integers(1, 3),
        "observation": st.sampled_from(["grid", "coordinates", "both"]),
        "format_penalty": st.sampled_from([0, -0.1, -2]),
        "invalid": st.sampled_from(["penalise", "discard", "end"]),
    },
)
SAID = REPLIES | st.builds(
    format_reply,
    st.lists(st.sampled_from([*ACTIONS, "Fly", "Nurse", ""]), max_size=7),
    st.none() | st.sampled_from(["", "hm"]),
)


def single(game, kwargs):
    """Return a conversation over the game with all of Gymnasium's own wrappers, and no limit."""
    return ConversationWrapper(gym.make(game, max_episode_steps=10**6), **kwargs)


def assert_same_state(ours, theirs):
    for name in (
        "messages", "user", "system", "names", "end", "success", "budget", "settings", "symbols",
    ):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.state_text() == theirs.state_text()
    assert ours.unwrapped.instance == theirs.unwrapped.instance


@pytest.mark.slow
@settings(QUICK, max_examples=40)
@given(st.sampled_from(GAME_IDS), st.integers(1, 4), SETTINGS, st.data())
def test_a_vector_is_as_many_wrappers(game, count, kwargs, data):
    if game == SOKOBAN:
        kwargs["symbols"] = data.draw(st.sampled_from(["standard", "new_vocab", MINE]))
    vector = make_vector(game, count, **kwargs)
    singles = [single(game, kwargs) for _ in range(count)]
    assert len(vector) == count
    reset_all(vector, singles, list(range(count)), data)
    for _ in range(6):
        ids = data.draw(st.lists(st.sampled_from(vector.running or [0]), unique=True))
        ids = [i for i in ids if vector.end_reasons[i] is None]
        replies = [data.draw(SAID) for _ in ids]
        cuts = [data.draw(st.booleans()) for _ in ids]
        results = vector.play(replies, ids, cuts if any(cuts) else None)
        asked = zip(ids, replies, cuts, strict=True)
        assert results == [singles[i].play(reply, cut) for i, reply, cut in asked]
        assert vector.messages() == [env.messages for env in singles]
        assert vector.messages(ids) == [singles[i].messages for i in ids]
        assert vector.end_reasons == [env.end for env in singles]
        assert vector.running == [i for i in range(count) if singles[i].end is None]
        for ours, theirs in zip(vector.conversations, singles, strict=True):
            assert_same_state(ours, theirs)
        ended = [i for i in range(count) if singles[i].end is not None]
        if ended and data.draw(st.booleans()):
            reset_all(vector, singles, ended, data)


def reset_all(vector, singles, ids, data):
    """Reset some conversations of both in the same way."""
    numbers = st.lists(st.integers(0, 255), min_size=len(ids), max_size=len(ids))
    split = data.draw(st.sampled_from([None, "train", "validation", "test"]))
    noises = data.draw(st.none() | numbers)
    frozen = split in ("validation", "test") and data.draw(st.booleans())
    numbers = data.draw(numbers)
    vector.reset(
        ids,
        split=split,
        noises=noises,
        seeds=None if frozen else numbers,
        indices=numbers if frozen else None,
    )
    for k, i in enumerate(ids):
        options = {} if split is None else {"split": split}
        options |= {} if noises is None else {"noise": noises[k]}
        options |= {"index": numbers[k]} if frozen else {}
        singles[i].reset(seed=None if frozen else numbers[k], options=options)
        assert_same_state(vector.conversations[i], singles[i])


@settings(QUICK, max_examples=60)
@given(st.sampled_from(GAME_IDS), SETTINGS, st.integers(0, 99), st.lists(SAID, max_size=6))
def test_infos_do_not_depend_on_wrappers_inside(game, kwargs, seed, replies):
    ours, theirs = make(game, **kwargs), single(game, kwargs)
    assert ours.reset(seed=seed) == theirs.reset(seed=seed)
    for reply in replies:
        if theirs.end is None:
            assert ours.step(reply) == theirs.step(reply)


def test_all_are_meant_where_no_ids_are_given():
    vector = make_vector(SOKOBAN, 3, max_turns=2)
    vector.reset(seeds=[0, 1, 2])
    assert [len(chat) for chat in vector.messages()] == [2, 2, 2]
    assert [result.executed for result in vector.play([say("Up")] * 3)] == [(0,)] * 3
    vector.play([""], [1])
    assert (vector.end_reasons, vector.running) == ([None, "budget", None], [0, 2])
    vector.reset([1])
    assert vector.running == [0, 1, 2]


WRONG = [
    ((["x"] * 2, None, None), "zip"),
    ((["x"] * 2, [0], None), "zip"),
    ((["x"] * 3, None, [True]), "zip"),
    ((["x", "x", 5], None, None), "the reply is 5, but"),
    ((["x"] * 3, [0, 2, 1], None), r"ended \(budget\)"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_wrong_turns_change_nothing(arguments, words):
    vector = make_vector(SOKOBAN, 3, max_turns=2)
    vector.reset(seeds=[0, 1, 2])
    if "ended" in words:
        vector.play(["x", "x"], [0, 1])
        vector.play(["x"], [1])
    before = vector.messages()
    with pytest.raises(ValueError, match=words):
        vector.play(*arguments)
    assert vector.messages() == before


def test_a_game_that_breaks_leaves_its_exception_and_the_others_are_played():
    vector = make_vector(SOKOBAN, 3)
    vector.reset(seeds=[0, 1, 2])
    vector.conversations[1].play = lambda *_: 1 / 0
    first, broken, last = vector.play([say("Up")] * 3)
    assert isinstance(broken, ZeroDivisionError)
    assert first.executed == last.executed == (0,)


def test_wrong_resets():
    vector = make_vector(SOKOBAN, 2)
    with pytest.raises(RagenError, match="reset"):
        vector.play(["x", "x"])
    for lists in ({"seeds": [1]}, {"indices": [1, 2, 3]}, {"noises": []}):
        with pytest.raises(ValueError, match="zip"):
            vector.reset(**lists)
    with pytest.raises(InstanceError, match="index is 1000000"):
        vector.reset(split="test", indices=[0, 10**6])


def test_seeds_and_ids_of_numpy():
    one, other = make_vector(SOKOBAN, 3), make_vector(SOKOBAN, 3)
    one.reset(seeds=[4, 5, 6])
    other.reset(seeds=np.arange(4, 7))
    assert one.messages() == other.messages()
    assert one.messages([0, 2]) == other.messages(np.array([0, 2]))


def test_wrong_numbers_of_conversations():
    for num in (0, 2.0):
        with pytest.raises(RagenError, match=f"num is {num!r}, but must be an integer >= 1"):
            make_vector(SOKOBAN, num)
    with pytest.raises(RagenError, match="turns"):
        make_vector(SOKOBAN, 2, turns=3)
