"""Any Gymnasium environment as a conversation: names, words, success, levels by seed."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from replies import say

from ragen_envs.conversation import ConversationWrapper, TextWrapper, make
from ragen_envs.conversation.readable import written
from ragen_envs.errors import RagenError, SolverLimitError

SIDES = ["up", "right", "down", "left"]


class Counter(gym.Env):
    """Count to ten.

    The number must become ten or more, but it also grows by chance.
    """

    metadata = {"render_modes": []}

    def __init__(self, actions=None, observations=None):
        self.action_space = actions or spaces.Discrete(3, start=1)
        self.observation_space = observations or spaces.Discrete(100)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = int(self.np_random.integers(5))
        return self._seen(), {}

    def step(self, action):
        self.taken.append(action)
        self.count += int(np.sum(action)) if not isinstance(action, str) else len(action)
        self.count += int(self.np_random.integers(3))
        return self._seen(), 1.0, self.count >= 10, False, {"count": self.count}

    def _seen(self):
        return self.count


class Board(Counter):
    """Returns the same array each time."""

    def __init__(self):
        super().__init__(observations=spaces.Box(0, 99, (1, 2), np.int64))
        self.board = np.zeros((1, 2), np.int64)

    def _seen(self):
        self.board[0, 1] = self.count
        return self.board


def play(env, *names, **options):
    """Return the texts of an episode whose actions have these names, one a turn."""
    text, _ = env.reset(options={"index": 0, **options})
    return [text, *(env.step(say(name))[0] for name in names if env.end is None)]


def test_cliff_walking_is_played_to_its_end():
    env = make("CliffWalking-v1", actions=SIDES)
    prompt, info = env.reset(seed=0)
    assert "A cliff runs along [3, 1..10]." in prompt
    assert "Actions: up, right, down, left." in prompt
    assert "at most 20 turns (replies), with up to 5 actions" in prompt
    assert info["success"] is None
    for reply in (["up"], ["right"] * 5, ["right"] * 5, ["right", "down"]):
        text, reward, terminated, truncated, info = env.step(say(" || ".join(reply)))
    assert (reward, terminated, truncated, info["end"]) == (-2.0, True, False, "terminated")
    assert "The game is over.\n" in text
    assert info["success"] is None


@pytest.mark.parametrize(
    ("env_id", "names", "shown", "goal"),
    [
        ("Taxi-v4", ("Move south (down)", "Drop off passenger"), "yellow[", "at least 8"),
        ("Blackjack-v1", ("Stick", "Hit"), "Observation: (", ""),
        ("FrozenLake-v1", ("Move left", "Move up"), "red[S]FFF\nFHFH\nFFFH\nHFFG", "at least 0.7"),
        ("CartPole-v1", ("Push cart to the left",), "Pole Angular Velocity: ", "at least 475"),
        ("MountainCar-v0", ("Don't accelerate",), "velocity of the car: 0", "at least -110"),
    ],
)  # fmt: skip
def test_environments_of_gymnasium_need_no_words_of_ours(env_id, names, shown, goal):
    env = make(env_id)
    prompt, info = env.reset(options={"split": "test", "index": 3})
    assert set(names) <= set(env.names)
    assert shown in env.state_text()
    assert goal in prompt
    assert (info["success"] is None) == (not goal)
    assert not any(mark in prompt for mark in ("##", "<a ", "](", "\x1b"))
    steps = env.env.env.spec.max_episode_steps or 100
    assert env.settings.max_actions == steps == 5 * env.settings.max_turns


def test_levels_are_seeds_of_one_split_and_noise_keeps_the_first_state():
    env = make(Counter())
    seeds = {}
    for split in ("train", "validation", "test"):
        for index in range(20):
            env.reset(options={"split": split, "index": index})
            seeds.setdefault(env.unwrapped.instance.level, set()).add(split)
    assert len(seeds) == 60
    assert all(len(splits) == 1 for splits in seeds.values())
    first = play(env, "1", "1", split="test")
    assert play(env, "1", "1", split="test") == first == play(make(Counter()), "1", "1", split="test")
    others = [play(env, "1", "1", split="test", noise=noise) for noise in range(1, 9)]
    assert all(other[0] == first[0] for other in others)
    assert len({other[1] for other in others}) > 1
    assert play(env, "1", "1", split="test", noise=3) == others[2]


def test_a_start_of_the_action_numbers_counts():
    env = make(Counter(), actions=["one", "two", "three"])
    play(env, "three", "one")
    assert env.unwrapped.env.taken == [3, 1]


def test_an_array_that_is_returned_again_is_seen_to_change():
    env = make(Board())
    env.reset(seed=0)
    assert env.step(say("3"))[-1]["action_is_effective"]
    assert "[[0 " in env.state_text()


@pytest.mark.parametrize(
    ("space", "actions", "name", "taken"),
    [
        (spaces.MultiDiscrete([2, 3]), None, "1 2", [1, 2]),
        (spaces.MultiDiscrete([2, 3]), [["low", "high"], ["a", "b", "c"]], "high b", [1, 1]),
        (spaces.MultiBinary(3), None, "1 0 1", [1, 0, 1]),
        (spaces.MultiDiscrete([20, 20], start=[1, 0]), None, "7 19", [7, 19]),
        (spaces.MultiBinary((2, 5)), None, "0 0 0 0 1 0 0 0 0 0", [[0, 0, 0, 0, 1], [0] * 5]),
    ],
)
def test_actions_of_several_parts(space, actions, name, taken):
    env = make(Counter(space), actions=actions)
    play(env, name)
    (action,) = env.unwrapped.env.taken
    assert np.array_equal(action, taken)
    assert space.contains(action)
    for chosen in env.random_actions(np.random.default_rng(0), 3):
        env.reset(seed=0)
        env.play(say(chosen if isinstance(chosen, str) else env.names[chosen]))
        assert space.contains(env.unwrapped.env.taken[-1])


def test_actions_that_are_not_listed_say_their_form():
    env = make(Counter(spaces.MultiDiscrete([3, 100])))
    prompt, _ = env.reset(seed=0)
    assert "Actions: <0|1|2> <0 to 99>." in prompt
    text, *_, info = env.step(say("1 100"))
    assert info["defects"] == ("illegal_action",)
    assert "its form is <0|1|2> <0 to 99>" in text


def test_text_actions_stay_as_they_are():
    env = make(Counter(spaces.Text(8)))
    play(env, "hello")
    assert env.unwrapped.env.taken == ["hello"]
    assert env.step(say("much too long"))[-1]["defects"] == ("illegal_action",)


@pytest.mark.parametrize(
    ("space", "form"),
    [
        (spaces.Text(8), "any text of 1 to 8 letters and digits"),
        (spaces.Text(3, min_length=2, charset="b a"), "any text of 2 to 3 of the characters  ab"),
        (spaces.Text(10_000), "any text of 1 to 4096 letters and digits"),
    ],
)
def test_text_actions_say_which_texts_there_are(space, form):
    env = make(Counter(space))
    prompt, _ = env.reset(seed=0)
    assert f"Actions: {form}." in prompt
    text, *_, info = env.step(say("go-north"))
    assert info["defects"] == ("illegal_action",)
    assert f"its form is {form}" in text


def test_an_environment_needs_no_render_modes():
    env = Counter()
    env.metadata = {"render_fps": 30}
    assert make(env).reset(seed=0)[0]


@pytest.mark.parametrize(("per_turn", "turns"), [(1, 500), (7, 72)])
def test_fewer_actions_a_turn_are_as_many_in_all(per_turn, turns):
    settings = make("CartPole-v1", actions_per_turn=per_turn).settings
    assert (settings.max_turns, settings.max_actions) == (turns, 500)


def test_names_of_a_docstring_that_cannot_be_told_apart_are_numbers():
    class Twice(Counter):
        """Count.

        ## Action Space
        - 0: more
        - 1: More
        - 2: none
        """

        def __init__(self):
            super().__init__(actions=spaces.Discrete(3))

    assert make(Twice()).unwrapped.action_names == ("0", "1", "2")


def test_success_is_a_threshold_a_function_or_the_info():
    def last(success, *names):
        env = make(Counter(), success=success)
        play(env, *names)
        return env.success

    assert last(2, "1") is False
    assert last(2, "1", "1") is True
    assert last(-1, "1") is False, "not before the end"
    assert last(-1, "3", "3", "3", "3") is True
    assert last(lambda total, info: info.get("count", 0) >= 10 and total < 5, "3", "3", "3", "3") is True

    class Told(Counter):
        def step(self, action):
            *result, _ = super().step(action)
            return *result, {"success": self.count >= 10}

    for success, expected in ((None, True), (2, True), (20, False)):
        env = make(Told(), **({} if success is None else {"success": success}))
        play(env, "3", "3", "3", "3")
        assert env.success is expected


def test_a_time_limit_of_the_env_truncates():
    env = make(gym.wrappers.TimeLimit(Counter(), 2))
    play(env, "1", "1")
    assert env.end == "truncated"


def test_rules_and_descriptions_of_the_user():
    env = make("CartPole-v1", rules="Balance it.", describe=lambda seen: f"{len(seen)} numbers")
    prompt, _ = env.reset(seed=0)
    assert prompt.startswith("Balance it.\nYou succeed if your rewards sum to at least 475.\n")
    assert env.state_text() == "4 numbers"


def test_observations_are_written():
    space = spaces.Dict(
        {"at": spaces.Discrete(5), "bag": spaces.Tuple([spaces.Text(9), spaces.MultiBinary(2)])}
    )
    value = {"at": np.int64(3), "bag": ("key", np.array([1, 0], np.int8))}
    assert written(space, value) == "at: 3\nbag: (key, [1 0])"
    box = spaces.Box(-1, 1, (2,))
    assert written(box, np.array([0.5, -0.123456], np.float32), ("x", "y")) == "x: 0.5, y: -0.1235"


def test_the_wrapper_is_a_game_and_can_be_copied():
    game = TextWrapper(gym.make("Taxi-v4", render_mode="ansi"))
    env = ConversationWrapper(game, max_turns=3)
    play(env, "Move north (up)")
    assert copy.deepcopy(env).state_text() == env.state_text()
    assert env.random_baseline() is None
    with pytest.raises(SolverLimitError, match="Taxi-v4 has no oracle"):
        env.oracle()


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CartPole-v1"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_sees_its_own_state(env_id, copied):
    env = make(env_id)
    env.reset(seed=1)
    before, other = env.state_text(), copied(env)
    while other.state_text() == before:
        other.play(say(other.names[1]))
    assert env.state_text() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"actions": ["up", "Up", "down", "left"]}, "must be 4 different names"),
        ({"actions": "udlr"}, "must be 4 different names"),
        ({"actions": ["a || b", "right", "down", "left"]}, "must be 4 different names without ||"),
        ({"actions": [" up", "right", "down", "left"]}, "must be 4 different names .* spaces around"),
        ({"actions_per_turn": 0}, "actions_per_turn is 0"),
        ({"success": "yes"}, "success is 'yes'"),
        ({"color": "red"}, "has no setting 'color'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(RagenError, match=message):
        make("CliffWalking-v1", **settings)


def test_spaces_without_words_are_named():
    with pytest.raises(RagenError, match="must be Discrete, MultiDiscrete, MultiBinary or"):
        make("Pendulum-v1")
    with pytest.raises(RagenError, match="give describe, a function"):
        make(Counter(observations=spaces.Box(0, 255, (64, 64, 3), np.uint8)))


def test_the_method_of_an_env_that_fails_is_named():
    class Broken(Counter):
        def step(self, action):
            raise KeyError("lost")

    env = make(Broken())
    env.reset(seed=0)
    with pytest.raises(RagenError, match=r"Broken\.step raised KeyError"):
        env.step(say("1"))


def test_a_dotless_i_in_an_answer_is_a_defect_and_no_error():
    class Lift(gym.Env):
        action_space = gym.spaces.MultiDiscrete([2, 70])
        observation_space = gym.spaces.Text(9)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return "", {}

        def step(self, action):
            return "", 0.0, False, False, {}

    env = make(Lift(), actions=[["lift", "wait"], [f"x{n}" for n in range(70)]])
    env.reset(seed=0)
    assert env.play("<think></think><answer>l\u0131ft x1</answer>").executed == ()


def test_an_environment_may_have_an_attribute_text():
    class Poem(gym.Env):
        text = "roses are red"
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

    env = make(Poem())
    env.reset(seed=0)
    assert env.user
