"""The credit audit: true values, the oracle's, the statistics, and the kept tables."""

import copy
import itertools
import random
import re
from statistics import fmean

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from credit.__main__ import main  # noqa: E402
from credit.audit import GAMES, Plan, audit  # noqa: E402
from credit.continuations import Place, replies, values  # noqa: E402
from credit.oracle import oracle_advantages  # noqa: E402
from credit.report import summary, table  # noqa: E402
from credit.turns import AuditedTurn  # noqa: E402
from scripted_engine import ScriptedEngine  # noqa: E402

from ragen_agents.rollout.chat import ChatCodec  # noqa: E402
from ragen_agents.rollout.collect import Collector, GroupSpec  # noqa: E402
from ragen_agents.starpo.config import Reward  # noqa: E402
from ragen_agents.starpo.parts.rewards import TurnReward  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.conversation import format_reply, make  # noqa: E402
from ragen_envs.game.text import action_texts  # noqa: E402

MOVES = ("Up", "Left")


@pytest.fixture(scope="module")
def codec():
    return ChatCodec(transformers.AutoTokenizer.from_pretrained(STARTER))


def collector(codec, write, **settings):
    def written(request):
        ids = codec.tokenizer.encode(write(request), add_special_tokens=False)
        return [*ids, codec.close]

    return Collector(
        ScriptedEngine(written, codec.stop_token_ids), codec,
        lambda: make("ragen/Sokoban-v0", **settings), 2048, 64, 1.0, "test", TurnReward(Reward()),
    )  # fmt: skip


def say(*actions):
    return f"<think>hm</think><answer>{' || '.join(actions)}</answer>"


def nothing(*_):
    pass


def test_a_policy_without_chance_is_worth_what_it_earns(codec):
    plays = collector(codec, lambda request: say(*MOVES), max_turns=3)
    levels = [GroupSpec(g, 2, {"seed": g}) for g in range(3)]
    played = plays.collect(levels, 0)
    worth = values(plays, levels, played, 4, 1, nothing)
    for trajectory in played:
        for turn in range(len(trajectory.turns)):
            to_go = sum(each.reward for each in trajectory.turns[turn:])
            place = Place(trajectory.group, trajectory.member if turn else 0, turn)
            assert worth[place].halves == pytest.approx((to_go, to_go))
            assert worth[place].error == pytest.approx(0)


def test_values_are_those_of_all_continuations(codec):
    def either(request):
        return say(MOVES[request.seed % 2])

    plays = collector(codec, either, max_turns=3)
    levels = [GroupSpec(0, 2, {"seed": 5})]
    played = plays.collect(levels, 0)
    copies = 60
    worth = values(plays, levels, played, copies, 1, nothing)
    env = make("ragen/Sokoban-v0", max_turns=3)
    for trajectory in played:
        env.reset(seed=5, options={})
        for number, turn in enumerate(trajectory.turns):
            exact = fmean(_earned(env, plan) for plan in itertools.product(MOVES, repeat=3 - number))
            place = Place(0, trajectory.member if number else 0, number)
            mean, error = fmean(worth[place].halves), worth[place].error
            assert abs(mean - exact) <= 4 * error + 1e-9
            env.play(turn.reply)


def _earned(env, plan):
    """Play the plan, an action a turn, on a copy."""
    own, total = copy.deepcopy(env), 0.0
    for action in plan:
        if own.end is None:
            total += own.play(say(action)).reward
    return total


def test_replies_are_what_the_model_wrote(codec):
    plays = collector(codec, lambda request: say(MOVES[request.seed % 2]), max_turns=3)
    (played,) = plays.collect([GroupSpec(0, 1, {"seed": 2})], 0)
    assert [codec.text(ids) for ids in replies(played)] == [turn.reply for turn in played.turns]


def test_the_oracle_costs_nothing_and_costs_add_up(codec):
    env = make("ragen/Sokoban-v0")
    for seed in range(8):
        env.reset(seed=seed)
        start = env.oracle().value
        plays = collector(codec, lambda request: say(random.Random(request.seed).choice(MOVES)))
        (played,) = plays.collect([GroupSpec(0, 1, {"seed": seed})], 0)
        costs = oracle_advantages(env, played)
        assert max(costs) <= 1e-12
        assert start + sum(costs) == pytest.approx(float(played.success))
    env.reset(seed=1)
    best = format_reply(action_texts(env.names, env.oracle().actions), None)
    (played,) = collector(codec, lambda request: best).collect([GroupSpec(0, 1, {"seed": 1})], 0)
    assert oracle_advantages(env, played)[0] == 0


def synthetic(assigned):
    """Return turns whose advantage is measured with as much noise as there is signal."""
    draw = random.Random(0).gauss
    found = []
    for group, member, turn in itertools.product(range(40), range(4), range(4)):
        worth = draw(0, 1)
        halves = (worth + draw(0, 1), worth + draw(0, 1))
        given = {"it": assigned(worth, group * 4 + member)}
        found.append(
            AuditedTurn(group, member, turn, 0.0, 0.0, (0.0, 0.0), halves, 0.0, 0.7, min(0, worth), given)
        )
    return found


def measured_roughly(levels, turns):
    """Return turns of a state's value, an advantage and luck, as large as the noise of each half."""
    draw = random.Random(0).gauss
    found = []
    for group in range(levels):
        value = draw(0, 1)
        before = (value + draw(0, 1), value + draw(0, 1))
        for turn in range(turns):
            after = value + draw(0, 1)
            halves = (after + draw(0, 1), after + draw(0, 1))
            found.append(
                AuditedTurn(
                    group, 0, turn, 0.0, after + draw(0, 1), before, halves, 0.7, 0.7,
                    min(0, after - value), {"it": draw(0, 1)},
                )
            )  # fmt: skip
    return found


def row(turns, name="`it`"):
    (line,) = (line for line in table(turns).splitlines() if line.startswith(f"| {name}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_correlation_is_corrected_for_the_noise_of_the_measurement():
    _, same, rank, correlation, within, oracle = row(synthetic(lambda worth, _: worth))
    assert float(same) > 90
    assert 0.7 < float(rank) < 0.9  # not corrected: sqrt(1 / 1.5)
    assert float(correlation.split()[0]) == pytest.approx(1, abs=0.07)
    assert float(within) == pytest.approx(1, abs=0.07)
    assert float(oracle) > 0.8


@pytest.mark.parametrize("name", ["return −", "return to go −"])
def test_true_values_are_corrected_for_the_noise_of_their_own_measurement(name):
    _, same, rank, correlation, _, _ = row(measured_roughly(800, 1), name)
    assert float(correlation.split()[0]) == pytest.approx(0.5**0.5, abs=0.06)
    assert same == rank == "–"  # these would share the noise of the true advantage


def test_true_values_are_corrected_within_episodes():
    *_, within, _ = row(measured_roughly(200, 4), "return to go −")
    assert float(within) == pytest.approx(0.5**0.5, abs=0.06)


def test_the_variance_between_turns_has_no_noise():
    # Half of that of pairs of turns lies within them; with noise it would be 38%.
    text = summary(measured_roughly(2000, 2))
    assert int(re.search(r"(\d+)% of their variance", text)[1]) == pytest.approx(50, abs=3)


def test_one_number_for_an_episode_says_nothing_within_it():
    assert row(synthetic(lambda _, episode: float(episode)))[4] == "–"


@pytest.mark.parametrize("game", ["sokoban", "bandit"])
def test_a_small_audit_is_consistent(tiny, game):
    plan = Plan(GAMES[game], str(tiny), 2, 2, copies=2, critic_iterations=1, max_tokens=12)
    turns = audit(plan)
    assert {(turn.group, turn.member) for turn in turns} == set(itertools.product(range(2), range(2)))
    for turn in turns:
        episode = [t for t in turns if (t.group, t.member) == (turn.group, turn.member)]
        assert [t.turn for t in episode] == list(range(len(episode)))
        assert episode[-1].after == (0, 0)
        assert turn.to_go == pytest.approx(sum(t.reward for t in episode[turn.turn :]))
        assert len({round(t.assigned["grpo"], 5) for t in episode}) == 1
        assert AuditedTurn.from_dict(turn.as_dict()).advantage == pytest.approx(turn.advantage, abs=1e-5)
    assert "turns of 4 episodes on 2 levels" in summary(turns)


def test_the_page_holds_the_tables_of_the_kept_turns():
    assert main(["--check"]) == 0
