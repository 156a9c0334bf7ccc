import hashlib
import importlib
import os
import random
import subprocess
import sys
import types
from functools import cache
from itertools import pairwise, zip_longest
from pathlib import Path

import gymnasium as gym
import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from playing import action_text, numeric_action
from scipy import stats

from ragen_envs.conversation import format_reply
from ragen_envs.game.word_game import WordGameEnv
from ragen_envs.games.frozen_lake import generator as frozen_lake
from ragen_envs.games.sokoban import generator as sokoban
from ragen_envs.games.sokoban import reverse_play
from ragen_envs.games.sokoban.laws import GENERATORS, law_of
from ragen_envs.levels import seeding
from ragen_envs.levels.seeding import (
    advance,
    advance_in_limbs,
    below,
    jump,
    new_stream,
    uniform,
    word,
)
from ragen_envs.registration import GAMES, text_ids

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

SUPPORT = Path(__file__).parents[1] / "support"
DIGESTS = Path(__file__).parents[1] / "data" / "digests"
"""A file for each game: what its first levels and some random play come to."""
NUMERIC = [game.id for game in GAMES]
EVERY = [*NUMERIC, *text_ids()]
STREAMS = st.integers(0, 2**63 - 1)


def walk(stream, count):
    for _ in range(count):
        stream = advance(stream)
        yield stream


def p_value(values, cells):
    return stats.chisquare(np.bincount(values, minlength=cells)).pvalue


@pytest.mark.parametrize("start", [0, 1, new_stream("train", "x", 0), 2**63 - 1])
@pytest.mark.parametrize("bound", [2, 5, 10, 36])
def test_below_is_uniform(start, bound):
    values = [below(s, bound) for s in walk(start, 5000)]
    assert min(values) >= 0
    assert p_value(values, bound) > 1e-4


def test_bits_are_fair():
    words = np.array([word(s) for s in walk(new_stream("test", "bits", 0), 8000)], np.uint64)
    for bit in range(32):
        ones = int((words >> np.uint64(bit) & np.uint64(1)).sum())
        assert abs(ones - 4000) < 5 * np.sqrt(2000)


def test_neighbours_are_independent():
    values = [below(s, 8) for s in walk(new_stream("train", "pairs", 3), 16_001)]
    pairs = [8 * a + b for a, b in pairwise(values)]
    assert p_value(pairs[::2], 64) > 1e-4


def test_first_words_of_neighbouring_indices_are_independent():
    firsts = [below(advance(new_stream("train", "g", i)), 8) for i in range(4001)]
    assert p_value(firsts, 8) > 1e-4
    pairs = [8 * a + b for a, b in pairwise(firsts)]
    assert p_value(pairs[::2], 64) > 1e-4


def test_uniform_is_uniform():
    draws = [uniform(s) for s in walk(new_stream("train", "u", 0), 5000)]
    assert min(draws) >= 0
    assert max(draws) < 1
    assert stats.kstest(draws, "uniform").pvalue > 1e-4


@given(STREAMS)
@QUICK
def test_uniform_is_the_word_scaled(stream):
    assert uniform(stream) == word(stream) / 2**32 < 1


@given(STREAMS, st.integers(1, 2**31))
@QUICK
def test_ranges(stream, bound):
    assert 0 <= advance(stream) < 2**63
    assert 0 <= word(stream) < 2**32
    assert 0 <= below(stream, bound) < bound


def test_no_short_cycle():
    seen = set(walk(12345, 20_000))
    assert len(seen) == 20_000


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("train", "sokoban-6x6-1", 0), (4932816766703716627, 556255579, 4221196222, 4087588349)),
        (
            ("test", "frozen_lake-4x4-0.8", 7, 3),
            (6946755703087284639, 2902007985, 2587413399, 2102180836),
        ),
        (
            ("validation", "bandit", 2**40),
            (3779721290290390070, 1153732133, 1137661576, 629447737),
        ),
    ],
)
def test_known_streams(arguments, expected):
    stream = new_stream(*arguments)
    assert (stream, *(word(s) for s in walk(stream, 3))) == expected


def test_known_jump():
    assert jump(1, 1) == 77803131892610477


def test_every_part_of_the_name_counts():
    names = {
        new_stream(purpose=purpose, scope=scope, index=index, noise=noise)
        for purpose in ("train", "validation", "policy 0")
        for scope in ("a", "b", "ab")
        for index in (0, 1, 2**31, 2**32, 2**64)
        for noise in (0, 1, 2**32)
    }
    assert len(names) == 3 * 3 * 5 * 3


def test_suite_version_counts(monkeypatch):
    before = new_stream("train", "a", 0)
    monkeypatch.setattr(seeding, "SUITE_VERSION", seeding.SUITE_VERSION + 1)
    assert new_stream("train", "a", 0) != before


@given(STREAMS, st.integers(1, 2**40))
@QUICK
def test_jump(stream, noise):
    there = jump(stream, noise)
    assert 0 <= there < 2**63
    assert there == jump(stream, noise)
    assert there not in {stream, jump(stream, noise + 1), jump(stream ^ 1, noise)}


@given(STREAMS)
@QUICK
def test_jump_zero_stays(stream):
    assert jump(stream, 0) == stream


def compiled(function, **names):
    space = {**function.__globals__, **names}
    return numba.njit(types.FunctionType(function.__code__, space, function.__name__))


FAST_ADVANCE = compiled(advance_in_limbs)
FAST_WORD = compiled(word)
FAST_BELOW = compiled(below, word=FAST_WORD)
FAST_UNIFORM = compiled(uniform, word=FAST_WORD)


@given(STREAMS, st.integers(1, 2**31))
@example(2**63 - 1, 2**31)
@example(0, 1)
@settings(QUICK, max_examples=150)
def test_compiled_functions_agree(stream, bound):
    number = np.int64(stream)
    assert FAST_ADVANCE(number) == advance_in_limbs(stream) == advance(stream)
    assert FAST_WORD(number) == word(stream)
    assert FAST_BELOW(number, np.int64(bound)) == below(stream, bound)
    assert FAST_UNIFORM(number) == uniform(stream)


def test_compiled_walk_agrees():
    plain, fast = 1, np.int64(1)
    for _ in range(3000):
        plain, fast = advance(plain), FAST_ADVANCE(fast)
        assert fast == plain


def draw_rooms(attempt, make, height, width, boxes, law, weights):
    buffers = reverse_play.scratch(height * width, boxes, law, make)
    board, stream, rooms = make(height * width), new_stream("train", "room", boxes), []
    for _ in range(40):
        player, stream = attempt(board, height, width, boxes, law, stream, weights, buffers)
        rooms.append((player, stream, list(board)))
    return rooms


@cache
def fast_attempt():
    importlib.import_module("ragen_envs.games.sokoban.kernels")  # makes the parts compilable

    @numba.njit
    def fast(board, height, width, boxes, law, stream, weights, buffers):
        return sokoban.attempt(board, height, width, boxes, law, stream, weights, buffers)

    return fast


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATORS)
def test_compiled_sokoban_generator_agrees(name):
    fast = fast_attempt()
    for height, width, boxes in ((6, 6, 1), (9, 7, 4)):
        law = law_of(name, 10, height, width, boxes)
        weights = sokoban.search_weights(height, width)
        plain = draw_rooms(sokoban.attempt, lambda n: [0] * n, height, width, boxes, law, weights.tolist())
        quick = draw_rooms(fast, lambda n: np.zeros(n, np.int64), height, width, boxes, law, weights)
        assert quick == plain


def test_compiled_lake_generator_agrees():
    fast = compiled(frozen_lake.attempt, advance=FAST_ADVANCE, below=FAST_BELOW, uniform=FAST_UNIFORM)
    plain_tiles, fast_tiles = bytearray(20), np.zeros(20, np.uint8)
    stream = new_stream("train", "map", 0)
    for _ in range(50):
        start, after = frozen_lake.attempt(plain_tiles, 4, 5, 0.8, stream)
        assert fast(fast_tiles, 4, 5, 0.8, np.int64(stream)) == (start, after)
        assert fast_tiles.tobytes() == plain_tiles
        stream = after


def chosen(env, rng):
    """Return a random action, the same one as ever for games with closed lists."""
    if isinstance(env.unwrapped, WordGameEnv):
        number = rng.randrange(1000)
        if env.spec.id in NUMERIC:
            return numeric_action(env, number)
        return format_reply([action_text(env, number)], "so")
    if env.spec.id in NUMERIC:
        return rng.randrange(env.action_space.n)
    return format_reply([rng.choice(env.get_wrapper_attr("names"))], "so")


def episode(env, steps, salt, **reset):
    rng = random.Random(salt)
    log = [env.reset(**reset)]
    for _ in range(steps):
        result = env.step(chosen(env, rng))
        log.append(result)
        if result[2] or result[3]:
            break
    return log


def digest(ids, frozen, seeds=3):
    found = hashlib.sha256()
    for env_id in ids:
        env = gym.make(env_id)
        for seed in range(seeds):
            for log in (
                episode(env, 12, seed, seed=seed),
                episode(env, 12, seed),
                episode(env, 12, seed, options={"noise": 2}),
                *(
                    episode(env, 12, seed, options={"split": "test", "index": seed + k})
                    for k in range(frozen)
                ),
            ):
                for observation, *rest, _ in log:
                    told = observation if isinstance(observation, str) else observation.tolist()
                    found.update(repr((told, rest)).encode())
        found.update(env.unwrapped.instance.level.encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def here():
    return digest(EVERY, frozen=1)


@pytest.mark.slow
def test_same_in_another_process(here):
    code = "import test_seeding as t; print(t.digest(t.EVERY, frozen=1))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parent, env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(SUPPORT)},
    )  # fmt: skip
    assert ran.stdout.strip() == here


@pytest.mark.slow
def test_same_in_another_order(here):
    for env_id in reversed(NUMERIC):
        episode(gym.make(env_id), 3, 0, seed=99)
    assert digest(EVERY, frozen=1) == here


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_the_levels_of_a_game_are_what_they_were(game):
    recorded = DIGESTS / f"{game.name}.txt"
    found = digest([game.id], frozen=0, seeds=6)
    assert recorded.exists(), f"a new game: write {found} to {recorded}"
    assert recorded.read_text().split() == [f"suite-version-{seeding.SUITE_VERSION}", found], (
        f"{game.id} draws other levels or pays other rewards than it did: restore what it was, or "
        "raise SUITE_VERSION and record the digest of every game again"
    )


def test_no_digest_is_of_a_game_that_is_gone():
    assert {path.stem for path in DIGESTS.iterdir()} == {game.name for game in GAMES}


@pytest.mark.parametrize("env_id", EVERY)
def test_interleaved_envs_are_independent(env_id):
    alone = [run_to_end(env_id, seed) for seed in (1, 2)]
    assert run_interleaved(env_id, (1, 2)) == alone


def stepper(env_id, seed):
    env = gym.make(env_id)
    rng = random.Random(seed)
    observation, info = env.reset(seed=seed)
    yield str(observation), info
    for _ in range(15):
        observation, *rest = env.step(chosen(env, rng))
        yield str(observation), *rest
        if rest[1] or rest[2]:
            observation, info = env.reset()
            yield str(observation), info


def run_to_end(env_id, seed):
    return list(stepper(env_id, seed))


def run_interleaved(env_id, seeds):
    logs = [[] for _ in seeds]
    for items in zip_longest(*(stepper(env_id, seed) for seed in seeds)):
        for log, item in zip(logs, items, strict=True):
            if item is not None:
                log.append(item)
    return logs


@pytest.mark.parametrize("env_id", NUMERIC)
def test_global_generators_are_left_alone(env_id):
    random.seed(5)
    np.random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = [str(item) for item in run_to_end(env_id, 4)]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    random.seed(6)
    np.random.seed(6)
    assert [str(item) for item in run_to_end(env_id, 4)] == first


def levels(env, count):
    found = []
    for _ in range(count):
        env.reset()
        found.append(env.unwrapped.instance.level)
    return found


@pytest.mark.parametrize("env_id", NUMERIC)
def test_reset_goes_on_with_the_sequence(env_id):
    env = gym.make(env_id)
    env.reset(seed=3)
    first = levels(env, 10)
    assert len(set(first)) > 3
    env.reset(seed=3)
    assert levels(env, 10) == first
    env.reset(seed=4)
    assert levels(env, 10) != first


@pytest.mark.parametrize("env_id", NUMERIC)
def test_unseeded_start(env_id):
    env = gym.make(env_id)
    env.reset()
    first = env.unwrapped.instance
    assert first.split == "train"
    assert first.index is None
    env.reset(seed=first.seed)
    assert env.unwrapped.instance == first
    assert len(set(levels(env, 12))) > 3


@pytest.mark.parametrize("env_id", NUMERIC)
def test_seeds_give_different_levels(env_id):
    env = gym.make(env_id)
    found = set()
    for seed in range(40):
        env.reset(seed=seed)
        found.add(env.unwrapped.instance.level)
        assert env.unwrapped.instance.seed == seed
    assert len(found) > 15


def outcome(env, noise, **reset):
    options = {**reset.pop("options", {}), **({} if noise is None else {"noise": noise})}
    env.reset(options=options, **reset)
    level = env.unwrapped.instance.level
    log = []
    for step in range(12):
        _, reward, ended, _, info = env.step(numeric_action(env, step))
        log.append((reward, info.get("slipped")))
        if ended:
            break
    return level, tuple(log)


SOURCES = [{"seed": 8}, {"options": {"split": "test", "index": 8}}]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("env_id", ["ragen/FrozenLake-v0", "ragen/Bandit-v0", "ragen/BanditRev-v0"])
def test_noise_is_another_draw_of_the_same_level(env_id, source):
    env = gym.make(env_id)
    if "Bandit" in env_id:
        env.reset(**source)
        gamble = 1 - env.unwrapped.sure_arm
        drawn = []
        for noise in range(80):
            env.reset(**source | {"options": source.get("options", {}) | {"noise": noise}})
            assert env.unwrapped.instance.noise == noise
            drawn.append((env.unwrapped.instance.level, env.step(gamble)[1]))
    else:
        drawn = [outcome(env, noise, **source) for noise in range(30)]
    assert len({level for level, _ in drawn}) == 1
    assert len({log for _, log in drawn}) > (1 if "Bandit" in env_id else 10)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("env_id", NUMERIC)
def test_noise_zero_is_the_default(env_id, source):
    env = gym.make(env_id)
    default = outcome(env, None, **source)
    assert outcome(env, 0, **source) == default
    assert outcome(env, 5, **source) == outcome(gym.make(env_id), 5, **source)
    assert outcome(env, 0, **source) == default


def test_frozen_instances_do_not_depend_on_what_was_before():
    env = gym.make("ragen/FrozenLake-v0")
    frozen = {"options": {"split": "test", "index": 3}}
    first = outcome(env, 0, **frozen)
    env.reset(seed=100)
    env.step(0)
    assert outcome(env, 0, **frozen) == first
    assert outcome(env, 0, seed=55, **frozen) == first
