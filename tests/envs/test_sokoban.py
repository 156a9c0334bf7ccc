import math
import time
from collections import deque

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ragen_envs.conversation import ConversationWrapper, format_reply
from ragen_envs.errors import GenerationError, InstanceError, RagenError, SolverLimitError
from ragen_envs.game.oracle import Budget
from ragen_envs.games.sokoban import REWARDS, Reward, SokobanEnv, dynamics, solve
from ragen_envs.games.sokoban.text import decode_level, encode_level

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
ACTIONS = st.lists(st.integers(0, 3), max_size=30)
SIGNS = "#_O+XPS"


class Slow:
    """Sokoban again, in two dimensions and sets."""

    def __init__(self, rows):
        cells = {(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row)}
        self.shape = len(rows), len(rows[0])
        self.walls = {cell for cell, sign in cells.items() if sign == "#"}
        self.targets = {cell for cell, sign in cells.items() if sign in "O+√S"}
        self.boxes = {cell for cell, sign in cells.items() if sign in "X+√"}
        (self.player,) = (cell for cell, sign in cells.items() if sign in "PS")

    def step(self, action):
        """Return (anything moved, boxes put on targets, boxes taken off targets)."""
        dr, dc = STEPS[action]
        ahead = self.player[0] + dr, self.player[1] + dc
        if ahead in self.walls:
            return False, 0, 0
        on = off = 0
        if ahead in self.boxes:
            beyond = ahead[0] + dr, ahead[1] + dc
            if beyond in self.walls | self.boxes:
                return False, 0, 0
            self.boxes = self.boxes - {ahead} | {beyond}
            on = int(beyond in self.targets and ahead not in self.targets)
            off = int(ahead in self.targets and beyond not in self.targets)
        self.player = ahead
        return True, on, off

    @property
    def solved(self):
        return self.boxes == self.targets

    def board(self):
        codes = np.ones(self.shape, np.uint8)
        for cell in self.walls:
            codes[cell] = 0
        for cell in self.targets:
            codes[cell] = 2
        for cell in self.boxes:
            codes[cell] = 3 if cell in self.targets else 4
        codes[self.player] += 4
        return codes

    def shortest(self):
        """Return the first of the shortest solutions, or None, by plain breadth-first search."""
        start = self.player, frozenset(self.boxes)
        seen, queue = {start}, deque([(start, ())])
        while queue:
            (player, boxes), plan = queue.popleft()
            if boxes == self.targets:
                return plan
            for action in range(4):
                self.player, self.boxes = player, set(boxes)
                self.step(action)
                state = self.player, frozenset(self.boxes)
                if state not in seen:
                    seen.add(state)
                    queue.append((state, (*plan, action)))
        return None


@st.composite
def boards(draw, side=6, most_boxes=3):
    """Return the rows of a random, often unsolvable board with a box off target."""
    height, width = draw(st.integers(3, side)), draw(st.integers(3, side))
    inside = [(r, c) for r in range(1, height - 1) for c in range(1, width - 1)]
    walls = set(draw(st.lists(st.sampled_from(inside), max_size=len(inside) // 3)))
    floor = [cell for cell in inside if cell not in walls]
    assume(len(floor) >= 3)
    order = draw(st.permutations(floor))
    count = draw(st.integers(1, min(most_boxes, len(floor) - 2)))
    player, boxes = order[0], set(order[1 : 1 + count])
    targets = set(draw(st.permutations(floor))[:count])
    assume(boxes != targets)

    def sign(cell):
        if cell == player:
            return "S" if cell in targets else "P"
        if cell in boxes:
            return "+" if cell in targets else "X"
        if cell in targets:
            return "O"
        return "_" if cell in floor else "#"

    return ["".join(sign((r, c)) for c in range(width)) for r in range(height)]


def start(rows, **settings_):
    env = SokobanEnv(level=rows, **settings_)
    board, info = env.reset(seed=0)
    return env, board, info


@pytest.mark.slow
@given(boards(), ACTIONS)
@settings(QUICK, max_examples=150)
def test_steps_agree_with_the_slow_game(rows, actions):
    env, board, info = start(rows)
    slow = Slow(rows)
    np.testing.assert_array_equal(board, slow.board())
    for action in actions:
        board, reward, ended, cut, info = env.step(action)
        moved, on, off = slow.step(action)
        np.testing.assert_array_equal(board, slow.board())
        np.testing.assert_array_equal(env.board, board)
        assert reward == pytest.approx(-0.1 + on - off + 10 * slow.solved)
        assert ended == slow.solved == info["success"]
        assert not cut
        assert info["action_is_effective"] == moved
        assert info["boxes_on_target"] == len(slow.boxes & slow.targets)
        if ended:
            break


def places(board, *codes):
    return {tuple(map(int, cell)) for cell in np.argwhere(np.isin(board, codes))}


@given(boards(), ACTIONS)
@QUICK
def test_what_a_step_keeps(rows, actions):
    env, before, _ = start(rows)
    for action in actions:
        after, _, ended, _, info = env.step(action)
        assert places(after, 0) == places(before, 0)
        assert places(after, 2, 3, 6) == places(before, 2, 3, 6)
        assert len(places(after, 5, 6)) == 1
        old, new = places(before, 3, 4), places(after, 3, 4)
        assert len(new) == len(old)
        assert len(old - new) <= 1
        if old != new:
            assert places(after, 5, 6) == old - new
        changed = int((before != after).sum())
        assert changed in ((2, 3) if info["action_is_effective"] else (0,))
        before = after
        if ended:
            break


def test_observations_are_fresh():
    env, first, _ = start(["######", "#P_XO#", "######"])
    copy = first.copy()
    second = env.step(3)[0]
    np.testing.assert_array_equal(first, copy)
    second[:] = 0
    assert env.board.any()
    env.board[:] = 0
    assert env.board.any()


@pytest.mark.slow
@given(boards(side=5, most_boxes=2))
@settings(QUICK, max_examples=75)
def test_solver_agrees_with_slow_search(rows):
    env, board, _ = start(rows)
    plan = solve(board)
    assert plan == Slow(rows).shortest()
    if plan is None:
        assert env.oracle().value == 0
        return
    for action in plan[:-1]:
        assert not env.step(action)[2]
    _, _, ended, _, info = env.step(plan[-1])
    assert ended
    assert info["success"]


@given(boards(side=5, most_boxes=2))
@settings(QUICK, max_examples=60)
def test_max_moves(rows):
    board = start(rows)[1]
    plan = solve(board)
    if plan is None:
        assert solve(board, max_moves=50) is None
        return
    assert solve(board, max_moves=len(plan)) == plan
    assert solve(board, max_moves=len(plan) - 1) is None
    assert solve(board, max_moves=len(plan))
    assert solve(board, max_moves=len(plan) - 1) is None


SIZES = [
    ((5, 5), 1),
    ((6, 6), 1),
    ((8, 8), 2),
    ((5, 9), 2),
    ((7, 4), 1),
    ((7, 7), 3),
    ((32, 32), 1),
]


@pytest.mark.parametrize(("size", "boxes"), SIZES)
def test_generated_levels_are_solvable(size, boxes):
    env = SokobanEnv(size=size, boxes=boxes)
    for seed in range(12):
        board, info = env.reset(seed=seed)
        assert board.shape == size
        border = np.concatenate([board[0], board[-1], board[:, 0], board[:, -1]])
        assert not border.any()
        assert len(places(board, 5, 6)) == 1
        assert len(places(board, 2, 6)) == len(places(board, 4)) == boxes
        assert info["boxes_on_target"] == 0
        plan = solve(board)
        assert plan
        for action in plan:
            _, _, ended, _, info = env.step(action)
        assert ended
        assert info["success"]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_fresh_levels_of_each_split_are_solvable(split):
    env = SokobanEnv()
    for _ in range(5):
        board, _ = env.reset(options={"split": split})
        assert solve(board)


def test_levels_are_not_all_trivial():
    env = SokobanEnv()
    lengths = [len(solve(env.reset(seed=seed)[0])) for seed in range(100)]
    assert 2.5 < np.mean(lengths) < 8
    assert max(lengths) > 8


@pytest.mark.parametrize(
    "rows",
    [
        ["#####", "#X__#", "#__P#", "#__O#", "#####"],
        ["######", "#PX#O#", "######"],
        ["#######", "#PXXOO#", "#######"],
        ["######", "#_#_O#", "#P#X_#", "######"],
    ],
)
def test_unsolvable_boards(rows):
    env, board, _ = start(rows)
    assert solve(board) is None
    assert solve(board, max_moves=1000) is None
    advice = env.oracle()
    assert (advice.actions, advice.value, advice.action) == ((), 0.0, None)


def test_solved_board_needs_nothing():
    assert solve(Slow(["####", "#+P#", "####"]).board()) == ()


def test_solver_limit():
    board, _ = SokobanEnv(size=8, boxes=2).reset(seed=1)
    with pytest.raises(SolverLimitError, match="max_states is 10"):
        solve(board, max_states=10)


def test_dead_squares_are_pruned():
    _, board, _ = start(["#######", "#X____#", "#__P__#", "#____O#", "#######"])
    assert solve(board, max_states=1) is None
    _, board, _ = start(["#######", "#P____#", "#_XX__#", "#_____#", "#__OO_#", "#######"])
    assert len(solve(board, max_states=1000)) == 13  # 2,360 states without pruning


@pytest.mark.parametrize(("size", "boxes"), [(7, 12), ((4, 32), 16)])
def test_settings_that_hardly_any_room_satisfies_end_soon(size, boxes):
    env = SokobanEnv(size=size, boxes=boxes)
    began = time.process_time()
    with pytest.raises(GenerationError, match=f"boxes={boxes}"):
        env.reset(seed=0)
    assert time.process_time() - began < 20


TWO_BOXES = ["########", "#P√__XO#", "#______#", "########"]
PLAN = (3, 1, 3, 3, 0, 2, 3, 3)


def rewards(reward, rows=TWO_BOXES, plan=PLAN):
    env, _, _ = start(rows, reward=reward)
    return [env.step(action)[1] for action in plan]


def test_dense_rewards():
    a = -0.1
    assert rewards("dense") == pytest.approx([a - 1, a, a, a, a, a + 1, a, a + 11])


def test_sparse_rewards():
    assert rewards("sparse") == [0, 0, 0, 0, 0, 0, 0, 1]


def test_reward_mappings():
    custom = {"per_action": -1, "box_on": 2, "box_off": -3, "solved": 50}
    assert rewards(custom) == [-4, -1, -1, -1, -1, 1, -1, 51]
    assert rewards(REWARDS["dense"]._asdict()) == rewards("dense")


def test_a_subclass_may_show_other_cells():
    class Dark(SokobanEnv):
        @property
        def cells(self):
            return super().cells.replace(bytes([dynamics.BOX]), bytes([dynamics.FLOOR]))

    env = Dark(level=["######", "#P_XO#", "######"], render_mode="ansi")
    env.reset(seed=0)
    assert env.render().split("\n")[1] == "#P__O#"


def test_the_reward_can_be_changed_later():
    env = SokobanEnv(level=["######", "#P_XO#", "######"])
    env.reset(seed=0)
    env.reward = Reward(per_action=-2.0, box_on=3.0, box_off=-3.0, solved=5.0)
    assert [env.step(action)[1] for action in (0, 3, 3)] == [-2.0, -2.0, 6.0]


def test_actions_without_effect_cost_the_same():
    assert rewards("dense", plan=(0, 2, 2)) == [-0.1, -0.1, -0.1]


@given(boards())
@QUICK
def test_level_text_round_trip(rows):
    level = "/".join(rows)
    board, height, width = decode_level(level)
    assert (height, width) == (len(rows), len(rows[0]))
    assert encode_level(board, width) == level
    assert decode_level(level.replace("+", "√")) == (board, height, width)
    env, observed, _ = start(rows)
    assert observed.tobytes() == board
    assert env.instance.level == level


@pytest.mark.parametrize("seed", range(5))
def test_generated_levels_can_be_given_as_level(seed):
    env = gym.make("ragen/SokobanLarge-v0")
    board, _ = env.reset(seed=seed)
    level = env.unwrapped.instance.level
    env.step(0)
    assert env.unwrapped.instance.level == level
    again, copied, _ = start(level.split("/"))
    np.testing.assert_array_equal(copied, board)
    assert again.boxes == 2
    assert again.instance.key == env.unwrapped.instance.key


def test_a_fixed_level_sets_size_and_boxes():
    env, board, _ = start(TWO_BOXES)
    assert (env.height, env.width, env.boxes) == (*board.shape, 2)
    assert env.observation_space.shape == board.shape
    env.step(3)
    np.testing.assert_array_equal(env.reset()[0], board)
    np.testing.assert_array_equal(env.reset(seed=3)[0], board)


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("", "equal length"),
        ("/", "equal length"),
        ("####/#PX#/###", "equal length"),
        ("#####/#PXO#/#####\n", "equal length"),
        ("#####/#pxo#/#####", "symbols"),
        ("#####/#P*O#/#####", "symbols"),
        ("####/#PXO/####", "bordered by walls"),
        ("#_###/#PXO#/#####", "bordered by walls"),
        ("PXO", "bordered by walls"),
        ("#####/#_XO#/#####", "0 players"),
        ("######/#PPXO#/######", "2 players"),
        ("######/#PSXO#/######", "2 players"),
        ("######/#P_XX#/######", "2 boxes and 0 targets"),
        ("######/#P_XS#/######", "2 players"),
        ("######/#P___#/######", "0 boxes"),
        ("######/#POXO#/######", "1 boxes and 2 targets"),
        ("###/###/###", "0 players"),
    ],
)
def test_bad_levels(level, words):
    with pytest.raises(InstanceError, match=words) as error:
        decode_level(level)
    assert repr(level) in str(error.value)
    with pytest.raises(RagenError, match=words):
        SokobanEnv(level=level.split("/"))


def test_levels_beyond_the_size_limit_are_refused():
    rows = ["#" * 140, "#PXO" + "_" * 135 + "#", "#" * 140]
    with pytest.raises(RagenError, match="at most 128 a side"):
        SokobanEnv(level=rows)


def test_solved_levels_are_refused():
    with pytest.raises(RagenError, match="solved"):
        SokobanEnv(level=["####", "#+P#", "####"])


@given(boards(side=5, most_boxes=2), st.integers(0, 20), st.integers(0, 6), st.integers(1, 6))
@settings(QUICK, max_examples=100)
def test_oracle_under_budgets(rows, actions, turns, actions_per_turn):
    env, board, _ = start(rows)
    plan = solve(board)
    advice = env.oracle(Budget(actions, turns, actions_per_turn))
    reach = min(actions, turns * actions_per_turn)
    assert len(advice.actions) <= min(actions_per_turn, reach)
    if plan is None:
        assert advice.value == 0
        return
    assert advice.value == float(len(plan) <= reach)
    assert advice.actions == plan[: min(actions_per_turn, reach)]


def test_oracle_with_a_number_of_steps():
    env, board, _ = start(TWO_BOXES)
    length = len(solve(board))
    assert env.oracle(length).value == 1
    assert env.oracle(length - 1).value == 0
    assert env.oracle(0).actions == ()
    assert env.oracle().value == 1
    assert len(env.oracle().actions) == 1


UNEVEN = {"per_action": -0.3, "box_on": 2.0, "box_off": -0.5, "solved": 7.0}


@pytest.mark.parametrize("steps", [1, 3, 6, 40])
@pytest.mark.parametrize("reward", ["dense", "sparse", UNEVEN])
def test_expected_return_is_what_following_earns(reward, steps):
    env = SokobanEnv(size=7, boxes=2, reward=reward)
    for seed in range(6):
        env.reset(seed=seed)
        first = env.oracle(steps)
        total, left, ended = 0.0, steps, False
        while left and not ended:
            _, gained, ended, _, info = env.step(env.oracle(left).action)
            total += gained
            left -= 1
        assert info["success"] == bool(first.value)
        assert total == pytest.approx(first.expected_return)
        if ended:
            assert env.oracle(left).actions == ()
            assert env.oracle(left).value == 1


@pytest.mark.parametrize("limits", [(5, 5, 10), (3, 4, 7), (1, 3, 3), (10, 1, 10)])
@pytest.mark.parametrize("reward", ["dense", UNEVEN])
def test_expected_return_in_conversation(reward, limits):
    turns, per_turn, most = limits
    env = ConversationWrapper(
        SokobanEnv(reward=reward), max_turns=turns, actions_per_turn=per_turn, max_actions=most
    )
    for seed in range(8):
        env.reset(seed=seed)
        first, total = env.oracle(), 0.0
        while env.end is None:
            result = env.play(format_reply([env.names[a] for a in env.oracle().actions], ""))
            assert result.parsed.is_valid
            total += result.reward
        assert env.success == bool(first.value)
        assert total == pytest.approx(first.expected_return)


def test_reward_is_a_plain_float():
    for name in REWARDS:
        env, _, _ = start(TWO_BOXES, reward=name)
        assert type(env.step(3)[1]) is float
    assert math.isclose(sum(Reward(1, 2, 3, 4)), 10)


def test_ansi_rendering_is_the_board():
    env = SokobanEnv(level=["######", "#P_XO#", "######"], render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "######\n#P_XO#\n######"
    env.step(3)
    env.step(3)
    assert env.render() == "######\n#__P√#\n######"


def test_time_limits():
    for env_id, limit in (("ragen/Sokoban-v0", 100), ("ragen/SokobanLarge-v0", 200)):
        env = gym.make(env_id, level=["######", "#P_XO#", "######"])
        env.reset(seed=0)
        for step in range(1, limit + 1):
            _, _, ended, cut, _ = env.step(0)
            assert not ended
            assert cut == (step == limit)
