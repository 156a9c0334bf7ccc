import gymnasium as gym
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import QUICK, REPLIES

from ragen_envs import GAMES
from ragen_envs.conversation import ConversationWrapper, format_reply, make

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


@settings(QUICK, max_examples=60)
@given(
    st.sampled_from(GAME_IDS), SETTINGS, st.integers(0, 99), st.sampled_from(["train", "validation", "test"]),
    st.lists(SAID, max_size=6), st.sampled_from(["standard", "new_vocab", MINE]),
)  # fmt: skip
def test_wrappers_inside_change_nothing(game, kwargs, number, split, replies, symbols):
    if game == SOKOBAN:
        kwargs["symbols"] = symbols
    ours, theirs = make(game, **kwargs), single(game, kwargs)
    frozen = {"split": split, "index": number, "noise": 3}
    for seed, options in ((number, {"split": split}), (None, {} if split == "train" else frozen)):
        assert ours.reset(seed=seed, options=options) == theirs.reset(seed=seed, options=options)
        for reply in replies:
            assert_same_state(ours, theirs)
            if theirs.end is None:
                assert ours.step(reply) == theirs.step(reply)
        assert_same_state(ours, theirs)


@settings(QUICK, max_examples=40)
@given(st.sampled_from(GAME_IDS), SETTINGS, st.lists(st.tuples(SAID, st.booleans()), max_size=4))
def test_turns_do_not_depend_on_wrappers_inside(game, kwargs, turns):
    ours, theirs = make(game, **kwargs), single(game, kwargs)
    ours.reset(seed=0)
    theirs.reset(seed=0)
    for reply, cut_off in turns:
        if theirs.end is None:
            assert ours.play(reply, cut_off) == theirs.play(reply, cut_off)
