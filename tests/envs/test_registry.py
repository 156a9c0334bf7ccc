import copy
import math
import pickle
import random
import re
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from playing import action_text, numeric_action

from ragen_envs import registration
from ragen_envs.conversation import ConversationWrapper, format_reply
from ragen_envs.errors import RagenError
from ragen_envs.game.base import GameEnv
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.registration import (
    GAMES,
    GameSpec,
    register_all,
    register_game,
    register_text,
    text_ids,
)

NUMERIC = [game.id for game in GAMES]
TEXTS = list(text_ids())
EVERY = [*NUMERIC, *TEXTS]
SPECS = {game.id: game for game in GAMES}
SPECS |= {text_id: SPECS[gym.spec(text_id).kwargs["game"]] for text_id in TEXTS}
PUBLISHED = (
    "Bandit", "BanditRev", "BanditTrap", "Sokoban", "SokobanLarge", "FrozenLake",
    "FrozenLakeDeterministic",
)  # fmt: skip
"""Names that people use; they stay."""

SHARED_KEYS = {"action_is_valid"}
"""Explained on docs/games/index.md."""
GAME_KEYS = {"success", "action_is_valid", "action_is_effective"}
CELLS = ("wall", "empty", "target", "box on target", "box", "player", "player on target")
TEXT_KEYS = {"defects", "soft_defects", "executed", "end", "turns_left", "actions_left"}


@contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def is_conversation(env):
    return env.spec.id in TEXTS


def some_action(env, rng):
    if is_conversation(env):
        chosen = [action_text(env, rng.randrange(1000)) for _ in range(rng.randint(1, 3))]
        return rng.choice([format_reply(chosen, "hm"), format_reply(chosen, None), "no"])
    return numeric_action(env, rng.randrange(1000))


def play(env, steps, seed):
    rng = random.Random(seed)
    observation, info = env.reset(seed=seed)
    log = [(observation, info)]
    for _ in range(steps):
        result = env.step(some_action(env, rng))
        log.append(result)
        if result[2] or result[3]:
            log.append(env.reset())
    return log


def assert_same(left, right):
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        assert left == right


def documented_keys(game):
    """Return the keys of the info that the manual page of a game names, each with its type."""
    information = game.env_class.__doc__.partition("## Information")[2].partition("## ")[0]
    return set(re.findall(r"`(\w+)`\s+\((?:bool|int|float|str)\)", information))


def test_ids():
    assert {f"ragen/{name}-v0" for name in PUBLISHED} <= set(NUMERIC)
    texts = {i.replace("-v0", "Text-v0") for i in NUMERIC} | {"ragen/SokobanNewVocabText-v0"}
    assert set(TEXTS) == texts
    assert {i for i in gym.registry if i.startswith("ragen/")} >= set(EVERY)


def test_register_all_again_changes_nothing():
    before = dict(gym.registry)
    with quiet():
        register_all()
    assert gym.registry == before


def test_a_game_whose_id_is_taken_is_refused():
    before = dict(gym.registry)
    game = GameSpec("Taken", "ragen_envs.games.bandit:BanditEnv", "one", namespace="registry_test")
    try:
        register_game(game)
        register_game(replace(game))
        # The second one's own id is that of the first one's conversation.
        for other in (replace(game, summary="two"), replace(game, name="TakenText")):
            with pytest.raises(RagenError, match=r"registry_test/Taken\w*-v0 is registered already; choose"):
                register_game(other)
        for name in ("Sokoban", "Mine"):
            with pytest.raises(RagenError, match=f"ragen/{name}-v0 is in the suite's own namespace"):
                register_game(replace(game, name=name, namespace="ragen"))
    finally:
        for each in set(gym.registry) - set(before):
            del gym.registry[each]
        registration._added.pop(game.id, None)
    assert gym.registry == before


@pytest.mark.parametrize("env_id", NUMERIC)
def test_check_env(env_id):
    env = gym.make(env_id).unwrapped
    assert isinstance(env, GameEnv)
    with quiet():
        check_env(env)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("env_id", EVERY)
def test_render_modes(env_id, mode):
    if mode == "rgb_array" and "rgb_array" not in SPECS[env_id].env_class.metadata["render_modes"]:
        pytest.skip("the game has no pictures")
    with quiet():
        env = gym.make(env_id, render_mode=mode)
        env.reset(seed=0)
        frame = env.render()
    assert env.render_mode == mode
    if mode == "ansi":
        assert isinstance(frame, str)
        assert frame.strip()
    else:
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
        assert frame.shape[2] == 3


@pytest.mark.parametrize("env_id", EVERY)
def test_make_reset_step_is_silent(env_id, capfd):
    with quiet():
        env = gym.make(env_id)
        env.reset(seed=1)
        env.reset()
        env.step(env.action_space.sample())
        env.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("env_id", EVERY)
def test_observations_and_actions_are_in_their_spaces(env_id):
    env = gym.make(env_id)
    for observation, *_ in play(env, 30, 2):
        assert env.observation_space.contains(observation)
    assert env.action_space.contains(env.action_space.sample())


@pytest.mark.parametrize("env_id", EVERY)
def test_two_copies_agree(env_id):
    first, second = gym.make(env_id), gym.make(env_id)
    assert_same(play(first, 50, 5), play(second, 50, 5))


@pytest.mark.parametrize("env_id", EVERY)
def test_same_env_twice_agrees(env_id):
    env = gym.make(env_id)
    first = play(env, 20, 5)
    play(env, 7, 6)
    assert_same(play(env, 20, 5), first)


@pytest.mark.parametrize("env_id", EVERY)
def test_infos_are_fresh(env_id):
    env = gym.make(env_id)
    first = copy.deepcopy(play(env, 20, 5))
    for result in play(env, 20, 5):
        result[-1].clear()
    assert_same(play(env, 20, 5), first)
    assert_same(play(gym.make(env_id), 20, 5), first)


@pytest.mark.parametrize("env_id", EVERY)
def test_pickle_mid_episode(env_id):
    env = gym.make(env_id)
    env.reset(seed=11)
    if any(env.step(some_action(env, random.Random(3)))[2:4]):
        env.reset()
    twin = pickle.loads(pickle.dumps(env))
    assert twin.spec == env.spec
    for steps in range(40):
        action = some_action(env, random.Random(steps))
        left, right = env.step(action), twin.step(action)
        assert_same(left, right)
        if left[2] or left[3]:
            assert_same(env.reset(), twin.reset())
    assert twin.unwrapped.instance == env.unwrapped.instance


@pytest.mark.parametrize("env_id", EVERY)
def test_spec_round_trips(env_id):
    env = gym.make(env_id)
    with quiet():
        again = gym.make(env.spec)
        through_json = gym.make(EnvSpec.from_json(env.spec.to_json()))
    for other in (again, through_json):
        assert str(other) == str(env)
        assert other.spec == env.spec
        assert_same(play(other, 12, 8), play(env, 12, 8))


@pytest.mark.parametrize("env_id", TEXTS)
def test_text_ids_have_text_spaces(env_id):
    env = gym.make(env_id)
    assert isinstance(env.observation_space, spaces.Text)
    assert isinstance(env.action_space, spaces.Text)
    assert str(env).count("ConversationWrapper") == 1
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    for reply in ("", "\x00", "√ 漢字 \u202e", "x" * 65_536):
        assert reply in env.action_space
    assert "x" * 65_537 not in env.action_space
    assert 3 not in env.action_space


def test_text_settings_are_keywords():
    env = gym.make(
        "ragen/SokobanText-v0", max_turns=2, actions_per_turn=3, max_actions=4, think=False,
        history="last", history_turns=2, symbols="new_vocab", observation="both",
        format_penalty=-0.5, invalid="discard", size=8, boxes=2, reward="sparse",
    )  # fmt: skip
    prompt, info = env.reset(seed=0)
    assert (info["turns_left"], info["actions_left"]) == (2, 4)
    assert (env.unwrapped.height, env.unwrapped.boxes) == (8, 2)
    assert "WWWWWWWW" in prompt
    assert "The board has 8 rows and 8 columns." in prompt
    assert "<think>" not in prompt
    assert env.step("nonsense")[1] == -0.5
    with quiet():
        again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=0)[0] == prompt
    assert again.get_wrapper_attr("settings") == env.get_wrapper_attr("settings")


def test_symbol_mappings_survive_json():
    symbols = dict(zip(CELLS, "█·◎■□☺☻", strict=True))
    env = gym.make("ragen/SokobanText-v0", symbols=symbols)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=4)[0] == env.reset(seed=4)[0]
    assert "██████" in again.reset(seed=4)[0]


def test_new_vocab_is_the_same_game_in_other_symbols():
    plain = gym.make("ragen/SokobanText-v0", observation="grid")
    other = gym.make("ragen/SokobanNewVocabText-v0")
    plain.reset(seed=9)
    other.reset(seed=9)
    table = str.maketrans("#_O√XPS", "W.GCBA@")
    states = [env.get_wrapper_attr("state_text")() for env in (plain, other)]
    assert states[0].translate(table) == states[1]


def test_register_text_under_an_own_id():
    register_text("tests/ShortLakeText-v0", "ragen/FrozenLake-v0", max_turns=1, success_rate=1.0)
    try:
        env = gym.make("tests/ShortLakeText-v0")
        _, info = env.reset(seed=0)
        assert info["turns_left"] == 1
        assert env.unwrapped.success_rate == 1.0
    finally:
        del gym.registry["tests/ShortLakeText-v0"]


def vector_log(envs):
    observations, infos = envs.reset(seed=3)
    log = [tuple(observations), sorted(infos)]
    for reply in ("<think>a</think><answer>Up || Left</answer>", "bad √ \U0001f600 reply", ""):
        observations, rewards, ended, cut, infos = envs.step([reply] * envs.num_envs)
        log.append((tuple(observations), rewards, ended, cut, infos["action_is_valid"]))
    envs.close()
    return log


def test_text_vector_envs():
    makers = [lambda: gym.make("ragen/SokobanText-v0")] * 2
    with quiet():
        sync = vector_log(gym.vector.SyncVectorEnv(makers))
        parallel = vector_log(gym.vector.AsyncVectorEnv(makers, shared_memory=False))
    assert_same(sync, parallel)
    alone = gym.make("ragen/SokobanText-v0")
    assert alone.reset(seed=3)[0] == sync[0][0]
    assert sync[0][0] != sync[0][1]
    assert sync[3][1][0] == -0.1


@pytest.mark.parametrize("env_id", NUMERIC)
def test_numeric_vector_env_plays_the_single_games(env_id):
    envs = gym.make_vec(env_id, num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=20)
    for k in range(3):
        single, _ = gym.make(env_id).reset(seed=20 + k)
        assert_same(np.asarray(observations[k]), np.asarray(single))


def loaded_modules(code, *names):
    script = f"import sys\n{code}\nprint(*[m for m in {names!r} if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()


HEAVY = ("torch", "numba", "transformers", "pandas", "scipy", "matplotlib", "yaml", "pydantic")


def test_import_is_light():
    assert loaded_modules("import ragen_envs", *HEAVY) == []


def test_playing_is_light():
    code = (
        "import gymnasium as gym, ragen_envs\n"
        "from ragen_envs.registration import GAMES, text_ids\n"
        "for i in [g.id for g in GAMES] + list(text_ids()):\n"
        "    env = gym.make(i); env.reset(seed=0); env.step(env.action_space.sample())"
    )
    assert loaded_modules(code, *HEAVY) == []


@pytest.mark.parametrize("env_id", EVERY)
def test_info_keys(env_id):
    keys = documented_keys(SPECS[env_id]) | SHARED_KEYS
    assert keys >= GAME_KEYS
    if issubclass(SPECS[env_id].env_class, WordGameEnv):
        keys |= {"reason"}
    if env_id in TEXTS:
        keys |= TEXT_KEYS
    env = gym.make(env_id)
    types = {}
    for item in play(env, 40, 7):
        info = item[-1]
        assert set(info) == keys
        for key, value in info.items():
            assert types.setdefault(key, type(value)) is type(value)
    assert types["success"] is bool
    _, info = env.reset(options={"split": "test", "index": 0})
    assert set(info) == keys
    assert info["action_is_effective"] is False
    assert info["success"] is False


def test_info_says_whether_the_action_did_something():
    env = gym.make("ragen/Sokoban-v0", level=["######", "#P_XO#", "######"])
    env.reset(seed=0)
    assert env.step(2)[4]["action_is_effective"] is False
    assert env.step(3)[4]["action_is_effective"] is True
    assert env.step(3)[4]["boxes_on_target"] == 1


BAD_KEYWORDS = [
    ("Sokoban", "size", 3),
    ("Sokoban", "size", 33),
    ("Sokoban", "size", (6, 6, 6)),
    ("Sokoban", "size", (6, 3)),
    ("Sokoban", "size", "66"),
    ("Sokoban", "size", 6.0),
    ("Sokoban", "boxes", 0),
    ("Sokoban", "boxes", 17),
    ("Sokoban", "reward", "rich"),
    ("FrozenLake", "size", 1),
    ("FrozenLake", "size", 17),
    ("FrozenLake", "size", (4,)),
    ("FrozenLake", "p", -0.1),
    ("FrozenLake", "p", 1.1),
    ("FrozenLake", "success_rate", 2),
    ("Bandit", "chance", 1.5),
    ("Bandit", "sure", math.nan),
    ("Bandit", "jackpot", math.inf),
    ("Bandit", "gamble", "first"),
    ("SokobanText", "max_turns", 0),
    ("SokobanText", "actions_per_turn", -1),
    ("SokobanText", "think", "yes"),
    ("SokobanText", "history", "some"),
    ("SokobanText", "observation", "pixels"),
    ("SokobanText", "invalid", "ignore"),
    ("SokobanText", "format_penalty", 0.1),
    ("SokobanText", "format_penalty", math.nan),
    ("SokobanText", "format_penalty", -math.inf),
    ("SokobanText", "symbols", "emoji"),
    ("FrozenLakeText", "symbols", "new_vocab"),
]


@pytest.mark.parametrize(("game", "field", "value"), BAD_KEYWORDS)
def test_bad_keywords(game, field, value):
    with pytest.raises(RagenError, match=re.escape(f"{field} is {value!r}")):
        gym.make(f"ragen/{game}-v0", **{field: value})


def test_unknown_keywords_are_named():
    with pytest.raises(TypeError, match="colour"):
        gym.make("ragen/Sokoban-v0", colour="red")
    with pytest.raises(RagenError, match=r"colour.*max_turns"):
        gym.make("ragen/SokobanText-v0", colour="red")
    with pytest.raises(TypeError, match="colour"):
        ConversationWrapper(gym.make("ragen/Sokoban-v0"), colour="red")


def test_incomplete_reward_mapping():
    with pytest.raises(RagenError, match=r"solved.*box_off") as error:
        gym.make("ragen/Sokoban-v0", reward={"per_action": -1, "solved": 1})
    assert "per_action, solved" in str(error.value)


def test_reward_mapping_with_a_word():
    bad = {"per_action": "x", "box_on": 1, "box_off": 1, "solved": 1}
    with pytest.raises(RagenError, match=r"reward.*'x'"):
        gym.make("ragen/Sokoban-v0", reward=bad)


@pytest.mark.parametrize("action", [-1, 4, 10**30, "Up", "1", None, 1.5, math.nan, [1, 2]])
@pytest.mark.parametrize("env_id", ["ragen/Sokoban-v0", "ragen/FrozenLake-v0"])
def test_bad_actions(env_id, action):
    env = gym.make(env_id).unwrapped
    before, _ = env.reset(seed=0)
    with pytest.raises(RagenError, match=re.escape(f"action is {action!r}")) as error:
        env.step(action)
    assert "0 (" in str(error.value)
    assert_same(env.board, before)


def test_bad_bandit_action_names_the_arms():
    env = gym.make("ragen/Bandit-v0", level=["Nurse", "Spy"]).unwrapped
    env.reset(seed=0)
    with pytest.raises(RagenError, match=r"action is 2, .*0 \(Nurse\), 1 \(Spy\)"):
        env.step(2)


@pytest.mark.parametrize("action", [1, np.int64(1), np.uint8(1), np.array(1)])
def test_integer_like_actions(action):
    env = gym.make("ragen/Sokoban-v0").unwrapped
    env.reset(seed=0)
    expected = gym.make("ragen/Sokoban-v0").unwrapped
    expected.reset(seed=0)
    assert_same(env.step(action), expected.step(1))


BAD_OPTIONS = [
    ({"level": 3}, "'level'"),
    ({"split": "dev"}, "split is 'dev'"),
    ({"split": None}, "split is None"),
    ({"noise": -1}, "noise is -1"),
    ({"noise": True}, "noise is True"),
    ({"index": 1.0}, "index is 1.0"),
    ({"split": "test", "index": -1}, "index is -1"),
    ({"split": "test", "index": 10**9}, "index is 1000000000"),
]


@pytest.mark.parametrize(("options", "words"), BAD_OPTIONS)
def test_bad_options(options, words):
    env = gym.make("ragen/FrozenLakeText-v0")
    with pytest.raises(RagenError, match=re.escape(words)):
        env.reset(options=options)


@pytest.mark.parametrize("number", [np.int64(3), np.uint8(3)])
def test_numpy_integers_are_integers(number):
    env = gym.make("ragen/Sokoban-v0")
    chosen, _ = env.reset(options={"split": "test", "index": number, "noise": number})
    plain, _ = env.reset(options={"split": "test", "index": 3, "noise": 3})
    assert_same(chosen, plain)
    assert type(env.unwrapped.instance.index) is int


def test_negative_seed():
    with pytest.raises(gym.error.Error, match="-4"):
        gym.make("ragen/Sokoban-v0").reset(seed=-4)


@pytest.mark.parametrize("env_id", [game.id for game in GAMES])
def test_calls_out_of_order_are_refused_without_gymnasiums_wrappers(env_id):
    env = gym.make(env_id, render_mode="ansi")
    for call in (env.render, lambda: env.step(0)):
        with pytest.raises(gym.error.ResetNeeded, match=r"call reset\(\) before"):
            call()
