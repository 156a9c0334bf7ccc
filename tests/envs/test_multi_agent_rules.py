"""The rules and oracles of the multi-agent games against independent, slow versions."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ragen_envs.errors import InstanceError, RagenError, SolverLimitError
from ragen_envs.games.frozen_lake.dynamics import FROZEN, GOAL, slipped, ways
from ragen_envs.games.frozen_lake.dynamics import step as walk_alone
from ragen_envs.games.sokoban import solve
from ragen_envs.games.sokoban.dynamics import BOX, FLOOR, PLAYER, TARGET
from ragen_envs.multi_agent.base import SeatView
from ragen_envs.multi_agent.games import bandit_market
from ragen_envs.multi_agent.games.frozen_lake_race import FrozenLakeRaceEnv, oracle
from ragen_envs.multi_agent.games.frozen_lake_race.dynamics import (
    ALL,
    FIRST,
    STAY,
    direction_of,
    walk_all,
)
from ragen_envs.multi_agent.games.sokoban_coop import SokobanCoopEnv
from ragen_envs.multi_agent.games.sokoban_coop.text import decode_level

# Cooperative Sokoban

MOVES = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1), 4: (0, 0)}


def slow_round(walls, targets, boxes, movers, actions):
    """The rules again, on sets of (row, column)."""
    boxes, movers = set(boxes), list(movers)
    for seat, action in enumerate(actions):
        dr, dc = MOVES[action]
        if action == 4 or boxes == targets:
            continue
        r, c = movers[seat]
        ahead, beyond = (r + dr, c + dc), (r + 2 * dr, c + 2 * dc)
        if ahead in walls or ahead in movers:
            continue
        if ahead in boxes:
            if beyond in walls | boxes | set(movers):
                continue
            boxes = boxes - {ahead} | {beyond}
        movers[seat] = ahead
    return boxes, movers


def sets_of(env):
    places = {"#": set(), "O": set(), "X": set()}
    for cell, code in enumerate(env.board):
        place = divmod(cell, env.width)
        if code == 0:
            places["#"].add(place)
        if code in (2, 3, 6):
            places["O"].add(place)
        if code in (3, 4):
            places["X"].add(place)
    return places["#"], places["O"], places["X"], [divmod(m, env.width) for m in env.movers]


@pytest.mark.slow
@given(st.integers(0, 15), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
@settings(max_examples=40)
def test_coop_plays_by_the_rules(seed, actions):
    env = SokobanCoopEnv(max_cycles=100)
    env.reset(seed=seed)
    for pair in actions:
        if not env.agents:
            break
        walls, targets, boxes, movers = sets_of(env)
        expected = slow_round(walls, targets, boxes, movers, pair)
        _, rewards, *_ = env.step(dict(zip(env.agents, pair, strict=True)))
        assert sets_of(env) == (walls, targets, *expected)
        gained = len(expected[0] & targets) - len(boxes & targets)
        won = 10 * (expected[0] == targets)
        assert list(rewards.values()) == [pytest.approx(-0.1 + gained + won)] * 2


def test_coop_with_one_player_is_sokoban():
    rows = ["######", "#____#", "#P_X_#", "#___O#", "#____#", "######"]
    single = gym.make("ragen/Sokoban-v0", level=rows)
    level = "/".join(rows).replace("P", "_") + " 2:1"
    team = SokobanCoopEnv(level=level, max_cycles=100)
    single.reset(seed=0)
    team.reset(seed=0)
    for action in (2, 3, 3, 3, 0, 3, 1):
        board, reward, terminated, _, info = single.step(action)
        seen, rewards, out, _, infos = team.step({"player_0": action})
        assert np.array_equal(seen["player_0"], board)
        assert rewards["player_0"] == pytest.approx(reward)
        assert out["player_0"] == terminated
        assert infos["player_0"]["success"] == info["success"]
        if terminated:
            break
    assert terminated


def test_coop_with_a_spare_box_is_solved_when_every_target_has_one():
    rows = ["#######", "#PXO__#", "#X____#", "#######"]
    single = gym.make("ragen/Sokoban-v0", level=rows)
    single.reset(seed=0)
    team = SokobanCoopEnv(level="/".join(rows).replace("P", "_") + " 1:1")
    team.reset(seed=0)
    assert team.oracle(0).value == 1.0
    board, reward, *_ = single.step(3)
    seen, rewards, out, _, infos = team.step({"player_0": team.oracle(0).action})
    assert np.array_equal(seen["player_0"], board)
    assert (rewards["player_0"], out["player_0"]) == (pytest.approx(reward), True)
    assert (infos["player_0"]["success"], infos["player_0"]["boxes_on_target"]) == (True, 1)
    rules = team.text.rules(SeatView(team, 0))
    assert "Push a box onto every target, no matter where the other boxes are" in rules
    assert "when every target has a box" in rules


def test_one_player_has_as_many_rounds_as_it_needs():
    env = SokobanCoopEnv(players=1)
    env.reset(seed=1)
    while env.agents:
        env.step({"player_0": env.oracle(0).action})
    assert env.success(0)
    assert env.rounds == env.limit


def test_a_level_that_nobody_can_solve_alone_has_24_rounds():
    env = SokobanCoopEnv(level="######/#X___#/#___O#/#____#/###### 2:2 3:3")
    env.reset(seed=0)
    assert env.limit == 24


def test_a_level_too_large_to_be_searched_alone_has_24_rounds(monkeypatch):
    def give_up(*_, **__):
        raise SolverLimitError("max_states is 2097152, too few to decide this 13x13 board")

    monkeypatch.setattr("ragen_envs.multi_agent.games.sokoban_coop.oracle.solve", give_up)
    env = SokobanCoopEnv(level="######/#____#/#_XO_#/#____#/###### 2:1 1:3")
    env.reset(seed=0)
    assert env.limit == 24


def test_coop_counts_boxes_that_begin_on_a_target():
    team = SokobanCoopEnv(level="######/#____#/#_X+_#/#_O__#/#____#/###### 1:3 4:1")
    _, infos = team.reset(seed=0)
    assert (team.boxes, infos["player_0"]["boxes_on_target"]) == (2, 1)
    *_, infos = team.step({"player_0": 1, "player_1": 4})
    assert infos["player_0"]["boxes_on_target"] == 0


@pytest.mark.slow
def test_a_team_can_and_nobody_alone():
    env = SokobanCoopEnv()
    for seed in range(3):
        env.reset(seed=seed)
        board, movers, width = decode_level(env.instance.level)
        for mover in movers:
            alone = bytearray(board)
            for other in set(movers) - {mover}:
                alone[other] = FLOOR if alone[other] == PLAYER else TARGET
            plan = solve(np.frombuffer(bytes(alone), np.uint8).reshape(-1, width))
            assert plan is None or len(plan) > env.limit
        expected, total = env.oracle(0).expected_return, 0.0
        assert env.oracle(0).value == 1.0
        while env.agents:
            actions = {agent: env.oracle(env.seat_of(agent)).action for agent in env.agents}
            _, rewards, *_ = env.step(actions)
            total += rewards["player_0"]
        assert env.success(0)
        assert total == pytest.approx(expected)


def test_coop_plans_are_shortest():
    env = SokobanCoopEnv(level="#######/#__X_O#/#__X_O#/####### 1:1 2:1", max_cycles=9)
    env.reset(seed=0)
    start = sets_of(env)
    layer, rounds = {(frozenset(start[2]), tuple(start[3]))}, 0
    while not any(boxes == start[1] for boxes, _ in layer):
        rounds += 1
        layer = {
            (frozenset(boxes), tuple(movers))
            for state in layer
            for pair in itertools.product(range(5), repeat=2)
            for boxes, movers in [slow_round(start[0], start[1], *state, pair)]
        }
    assert env.oracle(0).expected_return == pytest.approx(-0.1 * rounds + 2 + 10)


def test_coop_gives_up_where_a_box_is_lost():
    env = SokobanCoopEnv(level="######/#X___#/#___O#/#____#/###### 2:2 3:3", max_cycles=5)
    env.reset(seed=0)
    assert env.board.count(BOX) == 1
    assert env.oracle(0).value == 0.0
    expected, total = env.oracle(0).expected_return, 0.0
    while env.agents:
        _, rewards, *_ = env.step({each: env.oracle(env.seat_of(each)).action for each in env.agents})
        total += rewards["player_0"]
    assert total == pytest.approx(expected) == pytest.approx(-0.5)


# The race

TILES = st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=9, max_size=9)


@given(TILES, st.permutations(range(9)), st.lists(st.integers(0, 4), min_size=4, max_size=4), st.data())
@settings(max_examples=75)
def test_no_seat_has_priority_and_a_tile_holds_one(tiles, cells, directions, data):
    positions = list(cells[:4])
    order = data.draw(st.permutations(range(4)))
    there = walk_all(tiles, ways(3, 3), positions, directions)
    shuffled = walk_all(tiles, ways(3, 3), [positions[i] for i in order], [directions[i] for i in order])
    assert shuffled == [there[i] for i in order]
    frozen = [cell for cell in there if tiles[cell] == FROZEN]
    assert len(set(frozen)) == len(frozen)
    for here, after in zip(positions, there, strict=True):
        assert after == here or (tiles[here] == FROZEN and after in ways(3, 3)[4 * here : 4 * here + 4])


@pytest.mark.parametrize(
    ("positions", "directions", "there"),
    [
        ((3, 5), (2, 0), (3, 5)),  # both want the middle
        ((3, 4), (2, 0), (3, 4)),  # each wants the other's
        ((3, 4), (2, 4), (3, 4)),  # one stays
        ((3, 4), (2, 2), (4, 5)),  # one follows the other
        ((7, 5), (2, 1), (8, 8)),  # the goal holds both
    ],
)
def test_collisions(positions, directions, there):
    assert walk_all([0] * 8 + [GOAL], ways(3, 3), positions, directions) == list(there)


@given(TILES, st.integers(0, 8), st.integers(0, 3), st.floats(0, 1, exclude_max=True))
def test_one_walker_walks_as_in_frozen_lake(tiles, position, action, draw):
    if tiles[position] != FROZEN:
        return
    direction = slipped(action, 1 / 3, draw)
    expected, *_ = walk_alone(tiles, ways(3, 3), position, direction)
    assert walk_all(tiles, ways(3, 3), [position], [direction_of(action, 1 / 3, draw)]) == [expected]


def test_a_walker_slips_wherever_the_ice_turns_it_as_in_frozen_lake():
    """Also where it does not move: at the edge, or beside another walker."""
    race, found = FrozenLakeRaceEnv(size=3, p=1.0), set()
    lake = gym.make("ragen/FrozenLake-v0", size=3, p=1.0)
    rng = np.random.default_rng(0)
    for seed in range(40):
        race.reset(seed=seed)
        lake.reset(seed=seed)
        *_, infos = race.step({agent: int(rng.integers(5)) for agent in race.agents})
        *_, info = lake.step(int(rng.integers(4)))
        for env, each in [("race", i) for i in infos.values()] + [("lake", info)]:
            found.add((env, each["slipped"], each["action_is_effective"]))
    assert len(found) == 8


def test_all_start_equally_far_and_apart():
    env = FrozenLakeRaceEnv(size=5, players=3)
    for seed in range(10):
        env.reset(seed=seed)
        goal = env.tiles.index(GOAL)
        assert len(set(env.positions)) == 3
        for position in env.positions:
            level = "/".join(
                "".join("_OG"[t] if i != position else "P" for i, t in enumerate(env.tiles))[r : r + 5]
                for r in range(0, 25, 5)
            )
            lake = gym.make("ragen/FrozenLake-v0", level=level.split("/"), success_rate=1.0)
            lake.reset(seed=0)
            far = len(lake.unwrapped.oracle(1).actions) and next(
                n for n in range(1, 25) if lake.unwrapped.oracle(n).value == 1.0
            )
            assert far == env_distance(env, env.positions[0], goal)


def env_distance(env, start, goal):
    far, seen, layer = 0, {start}, {start}
    while goal not in layer:
        far += 1
        layer = {n for c in layer for n in env._ways[4 * c : 4 * c + 4]} - seen
        layer = {c for c in layer if env.tiles[c] != 1}
        seen |= layer
    return far


def value_by_linear_programming(game):
    rows, columns = game.shape
    bounds = [(0, None)] * rows + [(None, None)]
    unequal = np.hstack([-game.T, np.ones((columns, 1))])
    found = linprog(
        [0] * rows + [-1], A_ub=unequal, b_ub=[0] * columns,
        A_eq=[[1] * rows + [0]], b_eq=[1], bounds=bounds,
    )  # fmt: skip
    return -found.fun


@given(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(-3, 3), min_size=20, max_size=20))
@settings(max_examples=60)
def test_matrix_games_have_the_value_of_the_linear_programme(rows, columns, numbers):
    game = np.array(numbers[: rows * columns], float).reshape(rows, columns)
    solved = oracle.solve_games(game[None])
    value = value_by_linear_programming(game)
    assert solved.values[0] == pytest.approx(value, abs=1e-7)
    assert (solved.rows[0] @ game).min() >= value - 1e-7
    assert (game @ solved.columns[0]).max() <= value + 1e-7
    assert solved.rows[0].sum() == pytest.approx(1)
    assert min(solved.rows[0].min(), solved.columns[0].min()) >= 0


@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.integers(-30, 30), min_size=16, max_size=16),
    st.sampled_from([-9, -6, -3, -1, 1, 3, 6, 9]),
    st.sampled_from([0, 1, -7]),
)
@example(2, 2, [1, 0, 0, 1] + [0] * 12, -10, 0)
@example(2, 2, [3, 0, 0, 1] + [0] * 12, 12, 0)
@settings(max_examples=75)
def test_the_size_of_the_payoffs_does_not_change_the_equilibrium(rows, columns, numbers, power, plus):
    game = np.array(numbers[: rows * columns], float).reshape(1, rows, columns)
    scale = 10.0**power
    plain, scaled = oracle.solve_games(game), oracle.solve_games((game + plus) * scale)
    assert scaled.rows == pytest.approx(plain.rows, abs=1e-9)
    assert scaled.columns == pytest.approx(plain.columns, abs=1e-9)
    span = max(np.ptp(game), 1.0)
    assert scaled.values / scale - plus == pytest.approx(plain.values, abs=1e-8 * span)
    worst = (scaled.rows[0] @ game[0]).min()
    best = (game[0] @ scaled.columns[0]).max()
    assert best - worst <= 1e-7 * span


def outcomes(env, positions, actions):
    """Yield (probability, where all are then), over the slips of each walker."""
    laws = []
    for action in actions:
        side = (1 - env.success_rate) / 2
        law = [(1.0, action)]
        if action != STAY:
            law = [(env.success_rate, action), (side, (action + 1) % 4), (side, (action - 1) % 4)]
        laws.append(law)
    for (p, d), (q, e) in itertools.product(*laws):
        yield p * q, tuple(walk_all(env.tiles, env._ways, positions, (d, e)))


def slow_value(env, positions, rounds):
    """The value again, by recursion, with a linear programme for each stage of a race."""
    at = [env.tiles[p] for p in positions]
    if env.finish == ALL:
        if 1 in at or at == [GOAL, GOAL]:
            return float(at == [GOAL, GOAL])
    elif GOAL in at or at == [1, 1]:
        arrived = at.count(GOAL) or 1
        return (float(at[0] == GOAL) - float(at[1] == GOAL)) / arrived
    if rounds == 0:
        return 0.0
    game = np.array(
        [
            [
                sum(p * slow_value(env, s, rounds - 1) for p, s in outcomes(env, positions, (a, b)) if p)
                for b in range(5)
            ]
            for a in range(5)
        ]
    )
    return game.max() if env.finish == ALL else value_by_linear_programming(game)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "success_rate", "finish", "rounds"),
    [
        ("P_/_G 1:0", 1.0, FIRST, 2),
        ("P__/_O_/__G 0:1", 1.0, FIRST, 2),
        ("P_G 0:1", 0.5, FIRST, 2),
        ("PG/__ 1:0", 0.5, ALL, 2),
        ("P__/__G 1:0", 1.0, ALL, 2),
    ],
)  # fmt: skip
def test_race_oracle(level, success_rate, finish, rounds):
    env = FrozenLakeRaceEnv(level=level, success_rate=success_rate, finish=finish, max_cycles=rounds)
    env.reset(seed=0)
    value = slow_value(env, tuple(env.positions), rounds)
    expected = value if finish == ALL else (1 + value) / 2
    assert env.oracle(0).value == pytest.approx(expected, abs=1e-7)
    other = expected if finish == ALL else 1 - expected
    assert env.oracle(1).value == pytest.approx(other, abs=1e-7)


def test_optimal_teams_arrive_as_often_as_they_should():
    env = FrozenLakeRaceEnv(size=3, finish=ALL, success_rate=0.5, max_cycles=6)
    env.reset(seed=4)
    value, arrived = env.oracle(0).value, 0
    for noise in range(200):
        env.reset(seed=4, options={"noise": noise})
        while env.agents:
            env.step({agent: env.oracle(env.seat_of(agent)).action for agent in env.agents})
        arrived += env.success(0)
    assert 0.05 < value < 0.95
    assert abs(arrived / 200 - value) < 4 * math.sqrt(value * (1 - value) / 200)


@pytest.mark.slow
@pytest.mark.parametrize("finish", [FIRST, ALL])
@pytest.mark.parametrize("seed", [1, 4])
def test_two_oracles_are_paid_what_they_expect(seed, finish):
    env = FrozenLakeRaceEnv(size=4, finish=finish, max_cycles=5)
    env.reset(seed=seed)
    expected = [env.oracle(seat).expected_return for seat in range(2)]
    assert all(0 < each < 1 for each in expected)
    paid = np.zeros((200, 2))
    for noise in range(len(paid)):
        env.reset(seed=seed, options={"noise": noise})
        while env.agents:
            actions = {agent: env.oracle(env.seat_of(agent)).action for agent in env.agents}
            for agent, reward in env.step(actions)[1].items():
                paid[noise, env.seat_of(agent)] += reward
    errors = paid.std(axis=0) / math.sqrt(len(paid))
    assert (abs(paid.mean(axis=0) - expected) < 4 * errors).all()
    assert paid.sum(axis=1).min() == 0  # some races end without a winner


def test_race_oracle_says_what_it_cannot_do():
    env = FrozenLakeRaceEnv(players=3, size=5)
    env.reset(seed=0)
    with pytest.raises(RagenError, match="2 players, but there are 3"):
        env.oracle(0)
    env = FrozenLakeRaceEnv(size=8)
    env.reset(seed=0)
    with pytest.raises(RagenError, match="64 tiles"):
        env.oracle(0)


def test_the_first_wins_and_a_fall_is_the_end_of_one():
    env = FrozenLakeRaceEnv(level="PO_/__G/___ 2:2", success_rate=1.0)
    env.reset(seed=0)
    _, rewards, out, *_ = env.step({"player_0": 2, "player_1": STAY})
    assert env.agents == ["player_1"]
    assert out == {"player_0": True, "player_1": False}
    _, rewards, out, _, infos = env.step({"player_1": 3})
    assert (rewards, out, env.agents) == ({"player_1": 1.0}, {"player_1": True}, [])
    assert infos["player_1"]["success"]


# The market

MEANS = st.lists(st.integers(1, 12).map(lambda n: n / 10), min_size=2, max_size=4)


def payoff(means, choices, seat):
    return means[choices[seat]] / choices.count(choices[seat])


@given(MEANS, st.integers(1, 5))
@settings(max_examples=60)
def test_nobody_gains_by_leaving_the_pure_equilibrium(means, players):
    chosen = list(bandit_market.pure_equilibrium(means, players))
    for seat, arm in itertools.product(range(players), range(len(means))):
        other = [*chosen[:seat], arm, *chosen[seat + 1 :]]
        assert payoff(means, other, seat) <= payoff(means, chosen, seat) + 1e-12


def test_shares_add_up_to_what_the_chosen_arms_paid():
    env = bandit_market.BanditMarketEnv(level="A=2.0@1.0/B=1.0@1.0/C=4.0@0.5", max_cycles=40)
    env.reset(seed=0)
    _, rewards, *_ = env.step({"player_0": 0, "player_1": 0, "player_2": 1, "player_3": 3})
    assert rewards == {"player_0": 1.0, "player_1": 1.0, "player_2": 1.0, "player_3": 0.0}
    assert [env.success(seat) for seat in range(4)] == [False, False, False, False]
    paid = set()
    while env.agents:
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, 2))
        paid.add(sum(rewards.values()))
    assert paid == {0.0, 4.0}


def test_oracles_at_the_market_are_in_equilibrium():
    env = bandit_market.BanditMarketEnv()
    for seed in range(10):
        env.reset(seed=seed)
        env.step({agent: env.oracle(env.seat_of(agent)).action for agent in env.agents})
        assert all(env.success(seat) for seat in range(4))


@pytest.mark.parametrize("name", ["Pass", "pass", "PASS"])
def test_no_arm_of_the_market_can_be_taken_for_passing(name):
    with pytest.raises(InstanceError, match="must be different arms"):
        bandit_market.BanditMarketEnv(level=f"{name}=1.0@1.0/Rock=0.5@1.0")


@pytest.mark.parametrize("name", ["A || B", " A", "A\n", " "])
def test_every_arm_of_the_market_can_be_chosen_by_a_reply(name):
    with pytest.raises(InstanceError, match="must be different arms"):
        bandit_market.BanditMarketEnv(level=f"{name}=1.0@1.0/Rock=0.5@1.0")
