import itertools
import warnings

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test

from ragen_agents.policies import OraclePolicy, RandomPolicy, Request
from ragen_envs.conversation import format_reply
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.games.frozen_lake.dynamics import GOAL
from ragen_envs.levels.splits import SPLITS, split_of
from ragen_envs.multi_agent import MULTI_AGENT_GAMES

NUMERIC = [game.id for game in MULTI_AGENT_GAMES]
TEXTS = [game.text_id for game in MULTI_AGENT_GAMES]


def parallel(env_id, **kwargs):
    return pettingzoo.make("parallel", env_id, **kwargs)


def play(env, seed, episodes=2):
    """Return everything that some episodes of random play show."""
    seen = [env.reset(seed=seed)]
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        while env.agents:
            seen.append(env.step({agent: rng.integers(3) for agent in env.agents}))
        seen.append(env.reset())
    return seen


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, tuple | list):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert np.array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", NUMERIC)
def test_passes_api_tests(env_id, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel(env_id), 40)
        api_test(pettingzoo.make("aec", env_id), 40)
        seed_test(lambda: pettingzoo.make("aec", env_id), 40)
        parallel_seed_test(lambda: parallel(env_id), 40)
        render_test(lambda render_mode: pettingzoo.make("aec", env_id, render_mode=render_mode))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", TEXTS)
def test_pettingzoo_accepts_the_text_faces(env_id, capsys):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Observation|Action) space for each agent probably")
        warnings.filterwarnings("ignore", "Observation is not a NumPy array")
        parallel_api_test(parallel(env_id), 2)
        api_test(pettingzoo.make("aec", env_id), 1)
        seed_test(lambda: pettingzoo.make("aec", env_id), 1)


def test_the_numbers_of_all_walkers_fit_into_the_cell_of_the_goal():
    """Numbers beyond the third ran into the next cell, and out of the picture at its right edge."""
    level = "P____/_____/____G 0:1 0:2 0:3 0:4 1:0 1:1 1:2"
    env = parallel("ragen/frozen_lake_race-v0", finish="all", level=level, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.players == 8
    apart = env.render()
    env.positions = [env.tiles.index(GOAL)] * env.players
    together = env.render()
    assert together.shape == apart.shape
    env.positions = [0] + [env.tiles.index(GOAL)] * 7
    rows, columns = np.nonzero((env.render() != together).any(axis=2))
    assert all(
        (row < 48 and column < 48) or (row >= 96 and column >= 192)
        for row, column in zip(rows, columns, strict=True)
    )


@pytest.mark.parametrize("amount", ["0.0001234567@0.3333333", "1.234567e-300@1.234567e-300", "999999@1"])
def test_any_payoff_stays_inside_the_stall(amount):
    level = f"A={amount}/B=1@1"
    env = parallel("ragen/bandit_market-v0", level=level, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (200, 300, 3)
    env.pots = (env.offers[0][1].pays, 0.0)
    env.choices = (0, 0, 0, 0)
    assert env.render().shape == (200, 300, 3)


@pytest.mark.parametrize("env_id", NUMERIC)
def test_whole_episodes_repeat(env_id):
    assert_same(play(parallel(env_id), 3), play(parallel(env_id), 3))
    with pytest.raises(AssertionError):
        assert_same(play(parallel(env_id), 3), play(parallel(env_id), 4))


@pytest.mark.parametrize("env_id", NUMERIC)
def test_aec_plays_the_parallel_game(env_id):
    one, other = parallel(env_id), pettingzoo.make("aec", env_id)
    observations, _ = one.reset(seed=9)
    rewards = dict.fromkeys(one.agents, 0.0)
    other.reset(seed=9)
    rng = np.random.default_rng(0)
    actions = {}
    for agent in other.agent_iter():
        seen, reward, out, late, _ = other.last()
        assert_same(seen, observations[agent])
        assert reward == rewards[agent]
        if out or late:
            other.step(None)
            continue
        actions[agent] = int(rng.integers(3))
        other.step(actions[agent])
        if len(actions) == len(one.agents):
            observations, rewards, *_ = one.step(actions)
            actions = {}
    assert not one.agents


@pytest.mark.parametrize("game", MULTI_AGENT_GAMES, ids=lambda game: game.name)
def test_text_face_plays_the_numeric_game(game):
    one, other = parallel(game.id), parallel(game.text_id, think=False)
    observations, _ = one.reset(seed=5)
    told, _ = other.reset(seed=5)
    rng = np.random.default_rng(1)
    while one.agents:
        actions = {agent: int(rng.integers(4)) for agent in one.agents}
        names = {agent: one.names[action] for agent, action in actions.items()}
        observations, rewards, out, late, _ = one.step(actions)
        told, *rest, infos = other.step({a: format_reply([n], None) for a, n in names.items()})
        assert rest == [rewards, out, late]
        for agent in told:
            assert_same(told[agent]["observation"], observations[agent])
            assert infos[agent]["executed"] == (names[agent],)
            assert ("The game is over" in told[agent]["text"]) == (agent not in one.agents)
        assert other.agents == one.agents


@pytest.mark.parametrize("env_id", TEXTS)
def test_a_reply_that_says_nothing_does_nothing_and_costs(env_id):
    one, other = parallel(env_id), parallel(env_id)
    one.reset(seed=2)
    other.reset(seed=2)
    idle = dict.fromkeys(one.agents, one.game.names[-1])
    _, rewards, *_ = one.step({agent: format_reply([name], "I wait") for agent, name in idle.items()})
    told, costs, _, _, infos = other.step(dict.fromkeys(other.agents, "hm"))
    for agent in rewards:
        assert costs[agent] == pytest.approx(rewards[agent] - 0.1)
        assert infos[agent]["defects"] == ("no_think", "no_answer")
        told_to = told[agent]["text"]
        assert told_to.startswith("Your reply was invalid (no <think>, no <answer>), so no action")


@pytest.mark.parametrize("env_id", TEXTS)
def test_seats_read_other_forms_and_begin_turns(env_id):
    env = parallel(env_id, think_prefix=True)
    env.reset(seed=2)
    first = env.agents[0]
    name = env.game.names[-1]
    *_, infos = env.step(dict.fromkeys(env.agents, f"hm</think><answer>- {name}</answer>"))
    assert infos[first]["action_is_valid"]
    assert infos[first]["executed"] == (name,)
    assert infos[first]["soft_defects"] == ("bulleted_list",)
    told = [m["content"] for m in env.seats[0].messages if m["role"] == "assistant"]
    assert told == [f"<think>hm</think><answer>- {name}</answer>"]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", TEXTS)
def test_policies_take_seats(env_id):
    """Oracles win at least as often as random players do, from the same levels."""
    won = {}
    for policy in (OraclePolicy(), RandomPolicy()):
        won[policy.name] = 0
        for seed in range(6):
            env = parallel(env_id)
            env.reset(seed=seed)
            while env.agents:
                asked = [env.seats[env.game.seat_of(agent)] for agent in env.agents]
                replies = policy.act([Request(seat.messages, seed, seat) for seat in asked])
                results = env.play({a: r.text for a, r in zip(env.agents, replies, strict=True)})
                assert all(result.parsed.is_valid for result in results.values())
            won[policy.name] += sum(seat.success for seat in env.seats)
    assert won["oracle"] > won["random"]


def test_an_index_is_refused_since_there_are_no_frozen_levels():
    with pytest.raises(InstanceError, match="no frozen levels"):
        parallel(NUMERIC[0]).reset(options={"split": "test", "index": 7})


@pytest.mark.parametrize("env_id", NUMERIC)
def test_levels_belong_to_their_split_and_can_be_loaded_again(env_id):
    env = parallel(env_id)
    for split, seed in itertools.product(SPLITS, range(3)):
        env.reset(seed=seed, options={"split": split})
        instance = env.instance
        assert instance.split == split
        if "market" not in env_id:
            assert split_of(int(instance.key, 16)) == split
        again = parallel(env_id, level=instance.level)
        again.reset(seed=seed)
        assert again.instance.level == instance.level
        assert again.instance.key == instance.key
        assert again.limit == env.limit


def test_markets_of_different_splits_share_no_name():
    names = {}
    for split in SPLITS:
        env = parallel("ragen/bandit_market-v0")
        for seed in range(20):
            env.reset(seed=seed, options={"split": split})
            names.setdefault(split, set()).update(env.names[:-1])
    assert not names["train"] & (names["test"] | names["validation"])
    assert not names["test"] & names["validation"]


def test_noise_changes_chance_and_not_the_level():
    env = parallel("ragen/frozen_lake_race-v0")
    levels, paths = set(), set()
    for noise in range(4):
        env.reset(seed=11, options={"noise": noise})
        levels.add(env.instance.level)
        path = []
        while env.agents and env.rounds < 6:
            env.step(dict.fromkeys(env.agents, 2))
            path.append(tuple(env.positions))
        paths.add(tuple(path))
    assert len(levels) == 1
    assert len(paths) > 1


@pytest.mark.parametrize(
    ("env_id", "field", "value"),
    [
        ("ragen/sokoban_coop-v0", "size", 4),
        ("ragen/sokoban_coop-v0", "boxes", 0),
        ("ragen/sokoban_coop-v0", "players", 5),
        ("ragen/sokoban_coop-v0", "max_cycles", 0),
        ("ragen/frozen_lake_race-v0", "finish", "last"),
        ("ragen/frozen_lake_race-v0", "p", 2),
        ("ragen/frozen_lake_race-v0", "size", 40),
        ("ragen/bandit_market-v0", "arms", 1),
        ("ragen/bandit_market-v0", "players", "4"),
        ("ragen/bandit_market_text-v0", "invalid", "end"),
        ("ragen/sokoban_coop_text-v0", "observation", "image"),
        ("ragen/bandit_market_text-v0", "history", "some"),
    ],
)
def test_wrong_settings_are_named(env_id, field, value):
    with pytest.raises(RagenError, match=f"{field} is {value!r}"):
        parallel(env_id, **{field: value})


@pytest.mark.parametrize("env_id", NUMERIC)
def test_wrong_calls_are_named_and_change_nothing(env_id):
    with pytest.raises(RagenError, match="colour"):
        parallel(env_id, colour="red")
    with pytest.raises(InstanceError, match="level"):
        parallel(env_id, level="?!")
    env = parallel(env_id)
    with pytest.raises(RagenError, match="seed is -1"):
        env.reset(seed=-1)
    with pytest.raises(InstanceError, match="split is 'dev'"):
        env.reset(options={"split": "dev"})
    env.reset(seed=0)
    before = [env.observe(0), env.rounds]
    with pytest.raises(KeyError, match="player_1"):
        env.step({"player_0": 0})
    with pytest.raises(RagenError, match="action of player_1 is 99"):
        env.step({**dict.fromkeys(env.agents, 0), "player_1": 99})
    assert_same([env.observe(0), env.rounds], before)


@pytest.mark.parametrize(
    ("env_id", "level"),
    [
        ("ragen/sokoban_coop-v0", "#####/#_XO#/##### 1:1 1:2"),  # on a box
        ("ragen/sokoban_coop-v0", "#####/#_XO#/##### 1:1 1:1"),
        ("ragen/sokoban_coop-v0", "#####/#_XO#/##### 1:1 9:1"),
        ("ragen/sokoban_coop-v0", "#####/__XO#/##### 1:1 1:0"),  # no border
        ("ragen/sokoban_coop-v0", "######/#_XO##/###### 1:4 1:1"),  # in a wall
        ("ragen/sokoban_coop-v0", "#####/#_+_#/##### 1:1 1:3"),  # solved
        ("ragen/sokoban_coop-v0", "#####/#_XO#/#####"),
        ("ragen/frozen_lake_race-v0", "P_G/_O_ 1:1"),  # in a hole
        ("ragen/frozen_lake_race-v0", "P_G/_O_ 0:0"),
        ("ragen/frozen_lake_race-v0", "P_G/_O_ 0:-1"),
        ("ragen/bandit_market-v0", "A=1@2/B=1@1"),
        ("ragen/bandit_market-v0", "A=1@1/a=1@1"),
        ("ragen/bandit_market-v0", "A=nan@1/B=1@1"),
    ],
)
def test_levels_that_are_none(env_id, level):
    with pytest.raises(InstanceError):
        parallel(env_id, level=level)


@pytest.mark.parametrize(
    ("rows", "movers", "message"),
    [
        ("######/#_XO##/######", "1:4 1:1", "must have its movers on floor or targets"),
        ("######/#_XO##/######", "1:2 1:1", "must have its movers on floor or targets"),
        ("######/#_XO_#/######", "1:1 0:0", "must have its movers on floor or targets"),
        ("######/#PXO_#/######", "1:4", "must have its movers after the board, not on it"),
    ],
)
def test_a_misplaced_mover_is_named_with_the_level_as_given(rows, movers, message):
    level = f"{rows} {movers}"
    with pytest.raises(InstanceError, match=message) as found:
        parallel("ragen/sokoban_coop-v0", level=level)
    assert rows in str(found.value)


@pytest.mark.parametrize("env_id", NUMERIC + TEXTS)
def test_nobody_plays_before_or_after_the_game(env_id):
    env = parallel(env_id)
    with pytest.raises(RagenError, match=r"call reset\(\) first"):
        env.step({})


@pytest.mark.parametrize("game", MULTI_AGENT_GAMES, ids=lambda game: game.name)
def test_classic_modules_make_the_registered_games(game):
    module = __import__(game.module, fromlist=["env"])
    observations, _ = module.parallel_env().reset(seed=1)
    registered, _ = parallel(game.id).reset(seed=1)
    assert_same(observations, registered)
    for make in (module.env, module.raw_env):
        env = make(text=True)
        env.reset(seed=1)
        assert "You are player_0 of" in env.observe("player_0")["text"]
    assert gym.spaces.utils.flatdim(module.parallel_env().observation_space("player_0")) > 0


@pytest.mark.parametrize("kind", ["parallel", "aec"])
@pytest.mark.parametrize("env_id", NUMERIC + TEXTS)
def test_pettingzoo_also_reads_ids_with_an_underscore(env_id, kind):
    assert pettingzoo.spec(kind, env_id.replace("-v0", "_v0")) == pettingzoo.spec(kind, env_id)
