import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as GymnasiumLake
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st
from playing import numeric_action

from ragen_envs.compiled.kernels import grid_key as compiled_key
from ragen_envs.compiled.kernels import key_tables
from ragen_envs.compiled.vector import GameVectorEnv
from ragen_envs.errors import GenerationError, RagenError
from ragen_envs.games.bandit import generator as bandit_generator
from ragen_envs.games.frozen_lake import generator as lake_generator
from ragen_envs.games.frozen_lake.generator import map_key
from ragen_envs.games.frozen_lake.kernels import POSITION
from ragen_envs.games.sokoban import dynamics, solve
from ragen_envs.games.sokoban import generator as sokoban_generator
from ragen_envs.games.sokoban.level_key import level_key
from ragen_envs.levels.keys import grid_key
from ragen_envs.levels.seeding import jump, new_stream
from ragen_envs.levels.splits import SPLITS, split_of
from ragen_envs.registration import GAMES

IDS = [game.id for game in GAMES if game.vector_entry_point is not None]
SOKOBAN, LAKE, BANDIT = "ragen/Sokoban-v0", "ragen/FrozenLake-v0", "ragen/Bandit-v0"
UNEVEN = {"per_action": -0.3, "box_on": 2.0, "box_off": -0.5, "solved": 7.0}
CORRIDOR = ["########", "#P_X_O_#", "########"]
VARIANTS = [
    *((env_id, {}) for env_id in IDS),
    (SOKOBAN, {"size": (5, 8), "boxes": 2, "reward": "sparse"}),
    (SOKOBAN, {"reward": UNEVEN}),
    (SOKOBAN, {"levels": ["#######/#P__XO#/#######", "######/#P__X#/#O_X_#/######"]}),
    (LAKE, {"levels": ["P___/_O_G", "G__P/_OO_", "____/P_OG"]}),
    (SOKOBAN, {"level": CORRIDOR, "reward": "sparse"}),
    (LAKE, {"size": (3, 6), "p": 0.6, "success_rate": 0.7}),
    (LAKE, {"level": ["SFF", "FHF", "FFG"]}),
    (BANDIT, {"level": ["Nurse", "Somebody"], "jackpot": 2, "chance": 0.5}),
]


def assert_same(left, right, path=""):
    assert type(left) is type(right), path
    if isinstance(left, dict):
        assert set(left) == set(right), path
        for key in left:
            assert_same(left[key], right[key], f"{path}/{key}")
    elif isinstance(left, np.ndarray) and left.dtype == object:
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{path}[{i}]")
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, path
        np.testing.assert_array_equal(left, right, path)
    elif isinstance(left, tuple):
        for i, (a, b) in enumerate(zip(left, right, strict=True)):
            assert_same(a, b, f"{path}({i})")
    else:
        assert left == right, path


def pair(env_id, count, mode=AutoresetMode.NEXT_STEP, limit=None, **kwargs):
    """Return our vector env and Gymnasium's over the single envs."""
    extra = {} if limit is None else {"max_episode_steps": limit}
    ours = gym.make_vec(env_id, num_envs=count, autoreset_mode=mode, **extra, **kwargs)
    makers = [lambda: gym.make(env_id, **extra, **kwargs)] * count
    return ours, SyncVectorEnv(makers, autoreset_mode=mode)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.sampled_from(VARIANTS),
    st.sampled_from(list(AutoresetMode)),
    st.integers(1, 5),
    st.integers(0, 2**32),
    st.sampled_from([None, 1, 2, 7]),
    st.sampled_from(SPLITS),
)
def test_vector_equals_singles(variant, mode, count, seed, limit, split):
    ours, theirs = pair(variant[0], count, mode, limit, **variant[1])
    rng = np.random.default_rng(seed)
    options = {"split": split}
    assert_same(ours.reset(seed=seed, options=options), theirs.reset(seed=seed, options=options))
    for _ in range(25):
        actions = rng.integers(ours.single_action_space.n, size=count)
        left, right = ours.step(actions), theirs.step(actions)
        assert_same(left, right)
        ended = left[2] | left[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            seeds = [int(k) if k % 2 else None for k in rng.integers(1000, size=count)]
            again = [env.reset(seed=seeds, options={"reset_mask": ended}) for env in (ours, theirs)]
            assert_same(*again)
    assert_same(ours.reset(), theirs.reset())
    streams = [env.unwrapped.rng.stream for env in theirs.envs]
    assert ours._streams.tolist() == streams


@pytest.mark.parametrize("env_id", IDS)
def test_frozen_instances_with_noise(env_id):
    indices, noise = np.array([7, 0, 7, 511]), np.array([0, 3, 1, 0])
    envs = gym.make_vec(env_id, num_envs=4, autoreset_mode="Disabled")
    options = {"split": "validation", "index": indices, "noise": noise}
    observations, _ = envs.reset(options=options)
    result = envs.step(np.ones(4, np.int64))
    for i in range(4):
        single = gym.make(env_id)
        single_options = {"split": "validation", "index": int(indices[i]), "noise": int(noise[i])}
        first, _ = single.reset(options=single_options)
        assert_same(observations[i], first)
        observation, reward, ended, cut, info = single.step(1)
        assert_same(result[0][i], observation)
        assert (result[1][i], result[2][i], result[3][i]) == (reward, ended, cut)
        assert {key: result[4][key][i] for key in info} == info
    mask = np.array([False, True, False, False])
    kept = result[0]
    again, infos = envs.reset(options={**options, "reset_mask": mask, "index": 3, "noise": 0})
    assert infos["_success"].tolist() == mask.tolist()
    assert_same(again[~mask], kept[~mask])
    single = gym.make(env_id)
    assert_same(again[1], single.reset(options={"split": "validation", "index": 3})[0])


def test_noise_on_fresh_levels():
    envs = gym.make_vec(LAKE, num_envs=3)
    observations, _ = envs.reset(seed=[5, 5, 5], options={"noise": np.arange(3)})
    assert (observations == observations[0]).all()
    single = gym.make(LAKE)
    for i in range(3):
        single.reset(seed=5, options={"noise": i})
        assert single.unwrapped.rng.stream == envs._streams[i]
    assert jump(int(envs._streams[0]), 2) == envs._streams[2]


@pytest.mark.parametrize("env_id", IDS)
def test_make_vec(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = gym.make_vec(env_id, num_envs=100)
        observations, infos = envs.reset(seed=1)
        assert observations in envs.observation_space
        for _ in range(3):
            observations, rewards, ended, cut, infos = envs.step(envs.action_space.sample())
        envs.close()
        envs.close()
    assert isinstance(envs, GameVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.spec.id == env_id
    assert observations in envs.observation_space
    assert (rewards.dtype, ended.dtype, cut.dtype) == (np.float64, np.bool_, np.bool_)
    for key, values in infos.items():
        assert values.shape == (100,), key


@pytest.mark.parametrize("env_id", [game.id for game in GAMES if game.id not in IDS])
def test_make_vec_without_compiled_code_plays_the_single_games(env_id):
    ours, theirs = gym.make_vec(env_id, num_envs=2), SyncVectorEnv([lambda: gym.make(env_id)] * 2)
    assert_same(ours.reset(seed=3), theirs.reset(seed=3))
    for action in range(4):
        actions = [numeric_action(env, action) for env in theirs.envs]
        assert_same(ours.step(actions), theirs.step(actions))


def test_default_time_limit_and_none():
    for limit, cut_at in ((None, 100), (3, 3), (-1, 0)):
        extra = {} if limit is None else {"max_episode_steps": limit}
        envs = gym.make_vec(SOKOBAN, num_envs=2, level=CORRIDOR, **extra)
        envs.reset(seed=0)
        cuts = [envs.step(np.zeros(2, np.int64))[3].all() for _ in range(101)]
        assert cuts.index(True) + 1 == cut_at if cut_at else not any(cuts)


def fresh(envs, seeds, split):
    return envs.reset(seed=seeds, options={"split": split})[0]


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("height", "width", "boxes", "count"),
    [(6, 6, 1, 40), (8, 8, 2, 8), (5, 9, 3, 6), (4, 7, 1, 20)],
)
def test_compiled_sokoban_levels(height, width, boxes, count, split):
    envs = gym.make_vec(SOKOBAN, num_envs=count, size=(height, width), boxes=boxes)
    levels = fresh(envs, 1000, split)
    assert all(map(solve, levels[:20]))
    for i in range(count):
        stream = new_stream(split, envs.single.distribution, 1000 + i)
        law = envs.single.law
        board, _, stream = sokoban_generator.generate(height, width, boxes, law, stream, split)
        assert levels[i].tobytes() == bytes(board)
        assert envs._streams[i] == stream


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("height", "width", "p", "count"), [(4, 4, 0.8, 300), (8, 8, 0.7, 60), (2, 5, 0.5, 60)]
)
def test_compiled_lakes(height, width, p, count, split):
    envs = gym.make_vec(LAKE, num_envs=count, size=(height, width), p=p)
    levels = fresh(envs, 0, split)
    for i in range(count):
        stream = new_stream(split, envs.single.distribution, i)
        tiles, start, stream = lake_generator.generate(height, width, p, stream, split)
        cells = bytearray(tiles)
        cells[start] += 3
        assert levels[i].tobytes() == bytes(cells)
        assert envs._streams[i] == stream


@pytest.mark.parametrize("split", SPLITS)
def test_compiled_pairs(split):
    envs = gym.make_vec(BANDIT, num_envs=200)
    levels = fresh(envs, 0, split)
    known = bandit_generator.all_names()
    for i in range(200):
        names, stream = bandit_generator.generate(new_stream(split, "bandit", i), split)
        assert tuple(known[k] for k in levels[i]) == names
        assert envs._streams[i] == stream


@settings(max_examples=100)
@given(st.integers(2, 9), st.integers(2, 9), st.data())
def test_compiled_key(height, width, data):
    cells = data.draw(st.binary(min_size=height * width, max_size=height * width))
    array = np.frombuffer(cells, np.uint8)
    assert compiled_key(array, *key_tables(height, width)) == grid_key(cells, height, width)


def test_boxes_and_walls_are_conserved():
    envs = gym.make_vec(SOKOBAN, num_envs=64, size=7, boxes=3, autoreset_mode="Disabled")
    first, _ = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    active = np.ones(64, bool)
    for _ in range(60):
        board, _, ended, _, _ = envs.step(rng.integers(4, size=64))
        flat = board.reshape(64, -1)
        assert ((board == dynamics.WALL) == (first == dynamics.WALL)).all()
        assert (np.isin(flat, (3, 4)).sum(1) == 3).all()
        assert (np.isin(flat, (2, 3, 6)).sum(1) == 3).all()
        assert (np.isin(flat, (5, 6)).sum(1) == 1).all()
        active &= ~ended
        if ended.any():
            first = np.where(ended[:, None, None], envs.reset(options={"reset_mask": ended})[0], first)


def lake_key(cells, height, width):
    start = next(place for place, code in enumerate(cells) if code >= 3)
    return map_key(cells[:start] + b"\0" + cells[start + 1 :], height, width, start)


@pytest.mark.parametrize(("env_id", "key"), [(SOKOBAN, level_key), (LAKE, lake_key)])
def test_training_levels_are_in_no_held_out_split(env_id, key):
    envs = gym.make_vec(env_id, num_envs=256, max_episode_steps=1, autoreset_mode="SameStep")
    levels = [envs.reset(seed=0)[0]]
    levels += [envs.step(np.zeros(256, np.int64))[0] for _ in range(3)]
    for level in np.concatenate(levels):
        assert split_of(key(level.tobytes(), *level.shape)) == "train"


@pytest.mark.parametrize("success_rate", [1 / 3, 0.8])
def test_lake_frequencies_are_gymnasiums(success_rate):
    rows = ["SFFF", "FHFH", "FFFH", "HFFG"]
    law = GymnasiumLake(desc=rows, is_slippery=True, success_rate=success_rate).P
    count = 4000
    envs = gym.make_vec(LAKE, num_envs=count, level=rows, success_rate=success_rate)
    for action in range(4):
        envs.reset(seed=action * count)
        envs.step(np.full(count, action))
        found = np.bincount(envs._state[POSITION], minlength=16) / count
        expected = np.zeros(16)
        for probability, cell, _, _ in law[0][action]:
            expected[cell] += probability
        np.testing.assert_allclose(found, expected, atol=0.035)


BAD_ACTIONS = [
    np.zeros(2, np.int64),
    np.zeros((3, 1), np.int64),
    np.int64(1),
    [0.0, 1.0, 1.0],
    np.array([True, False, True]),
    ["Up", "Up", "Up"],
    None,
    np.array([0, 0, -1]),
    np.array([0, 4, 0]),
    np.array([0, 2**63, 0], np.uint64),
    [10**30, 0, 0],
]


@pytest.mark.parametrize(
    ("env_id", "actions"),
    [*((SOKOBAN, each) for each in BAD_ACTIONS), (LAKE, [0, 4, 0]), (BANDIT, [0, 2, 0])],
    ids=repr,
)
def test_bad_actions(env_id, actions):
    envs = gym.make_vec(env_id, num_envs=3)
    before, _ = envs.reset(seed=0)
    streams = envs._streams.copy()
    with pytest.raises(RagenError, match="action"):
        envs.step(actions)
    assert_same(envs._observations, before)
    assert_same(envs._streams, streams)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, list])
def test_integer_actions_of_any_type(dtype):
    actions = [1, 0, 3] if dtype is list else np.array([1, 0, 3], dtype)
    results = []
    for given_actions in (actions, np.array([1, 9, 0, 9, 3])[::2]):
        envs = gym.make_vec(SOKOBAN, num_envs=3)
        envs.reset(seed=0)
        results.append(envs.step(given_actions))
    assert_same(*results)


@pytest.mark.parametrize("env_id", [SOKOBAN, LAKE, BANDIT])
def test_observations_are_copies_unless_asked_otherwise(env_id):
    copying = gym.make_vec(env_id, num_envs=4, autoreset_mode="SameStep", max_episode_steps=1)
    viewing = gym.make_vec(env_id, num_envs=4, autoreset_mode="SameStep", max_episode_steps=1, copy=False)
    copied, viewed = copying.reset(seed=0)[0], viewing.reset(seed=0)[0]
    kept = copied.copy()
    results = [envs.step(np.ones(4, np.int64)) for envs in (copying, viewing)]
    assert_same(copied, kept)
    assert viewed is results[1][0]
    assert_same(*results)
    copied[:] = 0
    assert_same(copying._observations, viewing._observations)


def test_all_true_masks_are_read_only():
    envs = gym.make_vec(SOKOBAN, num_envs=2)
    envs.reset(seed=0)
    infos = envs.step(np.zeros(2, np.int64))[4]
    with pytest.raises(ValueError, match="read-only"):
        infos["_success"][0] = False
    infos["action_is_valid"][:] = False


def test_disabled_autoreset_asks_for_a_reset():
    envs = gym.make_vec(BANDIT, num_envs=3, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step(np.zeros(3, np.int64))
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(RagenError, match=r"envs \[1\].*reset_mask"):
        envs.step(np.zeros(3, np.int64))


@pytest.mark.parametrize("mask", [[True], True, None, [0, 1], [[True], [False]]])
def test_a_mask_that_is_no_bool_for_each_env_is_refused(mask):
    envs = gym.make_vec(SOKOBAN, num_envs=2)
    with pytest.raises(RagenError, match=r"reset_mask is .* must be an array of 2 bools"):
        envs.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("noise", [-1, 2**63, 2**64 + 5, [1, 2, 3]])
def test_noise_that_fits_no_int64_for_each_env_is_refused(noise):
    envs = gym.make_vec(SOKOBAN, num_envs=2)
    with pytest.raises(RagenError, match=r"noise is .* from 0 to 2\^63 - 1 or an array of 2"):
        envs.reset(options={"noise": noise})


def test_step_before_reset():
    envs = gym.make_vec(SOKOBAN, num_envs=2)
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.step(np.zeros(2, np.int64))


BAD_RESETS = [
    ({"seed": -1}, "seed is -1"),
    ({"seed": 1.5}, "seed is 1.5"),
    ({"seed": [1, 2]}, "2 items"),
    ({"seed": [1, 2, "x"]}, "seed is 'x'"),
    ({"options": {"level": 3}}, "'level'"),
    ({"options": {"split": "dev"}}, "split is 'dev'"),
    ({"options": {"index": [1, 2]}}, "index is"),
    ({"options": {"index": -1}}, "index is -1"),
    ({"options": {"index": np.array([0, 1, 10**6])}}, "index is 1000000"),
    ({"options": {"noise": 0.5}}, "noise is 0.5"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD_RESETS)
def test_bad_resets(arguments, words):
    envs = gym.make_vec(SOKOBAN, num_envs=3)
    before, _ = envs.reset(seed=0)
    with pytest.raises(RagenError, match=words):
        envs.reset(**arguments)
    assert_same(envs._observations, before)


def test_seeds_of_numpy_are_seeds():
    one, other = (gym.make_vec(SOKOBAN, num_envs=3) for _ in range(2))
    assert_same(one.reset(seed=np.int64(7)), other.reset(seed=7))
    assert one.np_random_seed == other.np_random_seed == 7


def test_bad_settings():
    for count in (0, -1, 1.5):
        with pytest.raises(RagenError, match="num_envs"):
            gym.make_vec(SOKOBAN, num_envs=count)
    for limit in (0, -2, 1.5):
        with pytest.raises(RagenError, match="max_episode_steps"):
            gym.make_vec(SOKOBAN, num_envs=2, max_episode_steps=limit)
    with pytest.raises(RagenError, match="size is 3"):
        gym.make_vec(SOKOBAN, num_envs=2, size=3)
    with pytest.raises(TypeError, match="colour"):
        gym.make_vec(SOKOBAN, num_envs=2, colour="red")


@pytest.mark.parametrize(("env_id", "kwargs"), [(SOKOBAN, {"size": 7}), (LAKE, {"size": (3, 5)})])
def test_numbered_levels_without_a_pack(env_id, kwargs):
    ours, theirs = pair(env_id, 3, **kwargs)
    for split, index, noise in (("test", 5, 0), ("train", 5, 1)):
        options = {"split": split, "index": index, "noise": noise}
        first, again = (envs.reset(options=options)[0] for envs in (ours, theirs))
        assert_same(first, again)
        assert_same(first[0], first[2])
        for actions in np.random.default_rng(0).integers(4, size=(5, 3)):
            assert_same(ours.step(actions)[0], theirs.step(actions)[0])


def test_generation_errors():
    envs = gym.make_vec(SOKOBAN, num_envs=2, size=7, boxes=12)
    with pytest.raises(GenerationError) as ours:
        envs.reset(seed=0)
    with pytest.raises(gym.error.ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(GenerationError) as theirs:
        gym.make(SOKOBAN, size=7, boxes=12).reset(seed=0)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize(("env_id", "kwargs"), [(i, {}) for i in IDS] + VARIANTS[-3:])
def test_render(env_id, kwargs, mode):
    ours, theirs = pair(env_id, 3, AutoresetMode.DISABLED, render_mode=mode, **kwargs)
    for envs in (ours, theirs):
        envs.reset(seed=4)
    assert_same(ours.render(), theirs.render())
    for envs in (ours, theirs):
        envs.step(np.ones(3, np.int64))
    assert_same(ours.render(), theirs.render())
    assert gym.make_vec(env_id, num_envs=2).render() is None
