"""GSPO, CISPO, GiGPO, masked importance sampling, DAPO's refill and RAGEN-2's filters, against slow ones."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn  # noqa: E402
from ragen_agents.starpo import ESTIMATORS, POLICY_LOSSES, TrainConfig  # noqa: E402
from ragen_agents.starpo.math.losses import within_bounds  # noqa: E402
from ragen_agents.starpo.parts.estimators import EstimatorInput  # noqa: E402
from ragen_agents.starpo.parts.filters import apply_filter  # noqa: E402
from ragen_agents.starpo.parts.policy_losses import PolicyLossInput  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_envs.game.oracle import Budget  # noqa: E402

RETURNS = st.lists(
    st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=5), min_size=1, max_size=8
)


def arrays(groups):
    return [np.array(group) for group in groups]


def deviations(groups):
    return [statistics.stdev(group) if len(group) > 1 else 0.0 for group in groups]


def slow_prefix(order, scores, goal):
    kept, mass = [], 0.0
    for group in order:
        kept.append(group)
        mass += scores[group]
        if mass >= goal:
            break
    return sorted(kept)


def ranked(scores, zeros):
    order = sorted(range(len(scores)), key=lambda group: -scores[group])
    return order if zeros else [group for group in order if scores[group] > 1e-8]


@given(RETURNS, st.sampled_from([0.5, 0.8, 0.9, 1.0]), st.sampled_from([0.0, 0.01, 0.5]))
def test_top_p_adds_deviations_up(groups, p, eps):
    scores = deviations(groups)
    found = apply_filter(arrays(groups), "top-p", p, 0, {"eps": eps})
    goal = p * sum(scores) - eps
    expected = slow_prefix(ranked(scores, zeros=False), scores, goal - 1e-12)
    if found != expected:  # sums that meet the goal to the last bit may round either way
        assert abs(sum(scores[g] for g in min(found, expected, key=len)) - goal) < 1e-9


@given(RETURNS, st.sampled_from([0.5, 0.8, 0.9, 0.97]))
def test_softmax_top_p_counts_groups_of_equal_returns(groups, p):
    scores = deviations(groups)
    total = sum(math.exp(score) for score in scores)
    mass = [math.exp(score) / total for score in scores]
    found = apply_filter(arrays(groups), "softmax-top-p", p, 0)
    assert found == slow_prefix(ranked(scores, zeros=True), mass, p - 1e-9)


@given(RETURNS, st.sampled_from([0.2, 0.5, 1.0]))
def test_min_p_keeps_what_comes_near_the_largest(groups, share):
    scores = deviations(groups)
    found = apply_filter(arrays(groups), "min-p", share, 0)
    expected = [g for g, score in enumerate(scores) if score >= share * max(scores) and score > 0]
    assert [scores[g] for g in found] == pytest.approx([scores[g] for g in expected])


def test_deviation_and_variance_weigh_differently():
    """The example of RAGEN-2's rule: deviations of 5, 3 and 1, and nine tenths of the sum."""
    groups = arrays([[0, math.sqrt(2) * each] for each in (5, 3, 1)])
    assert apply_filter(groups, "top-p", 0.9, 0) == [0, 1, 2]
    assert apply_filter(groups, "variance-share", 0.9, 0) == [0, 1]


def test_filters_of_no_groups():
    for kind in ("top-p", "softmax-top-p", "min-p"):
        assert apply_filter([], kind, 0.9, 0) == []


TURNS = torch.tensor([[-1, 0, 0, -1, 1, 1, 1], [-1, 0, 0, 0, 0, -1, -1]])


def loss_input(seed, **settings):
    drawn = torch.Generator().manual_seed(seed)
    old = -2 * torch.rand(TURNS.shape, generator=drawn, dtype=torch.float64)
    new = (old + 0.6 * torch.randn(TURNS.shape, generator=drawn, dtype=torch.float64)).detach()
    advantages = torch.randn(len(TURNS), 1, generator=drawn, dtype=torch.float64).expand(
        TURNS.shape
    )
    return PolicyLossInput(
        logprobs=new.requires_grad_(), old_logprobs=old, rollout_logprobs=old, advantages=advantages,
        turn_ids=TURNS, mask=TURNS >= 0, settings=TrainConfig(loss=settings).loss, params={},
    )  # fmt: skip


def gradient(part, loss):
    (found,) = torch.autograd.grad(loss, part.logprobs)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_gspo_is_ppo_with_one_ratio_a_sequence(seed):
    part = loss_input(seed, policy_loss="gspo")
    found = POLICY_LOSSES["gspo"].function(part)
    expected = torch.zeros((), dtype=torch.float64)
    for row in range(len(TURNS)):
        places = part.mask[row].nonzero()[:, 0].tolist()
        gap = sum(part.logprobs[row, t] - part.old_logprobs[row, t] for t in places)
        ratio = torch.exp(gap / len(places))
        advantage = part.advantages[row, places[0]]
        one = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        expected = expected + one * len(places)
        assert found.loss[row, places].tolist() == pytest.approx(
            [float(one.detach())] * len(places)
        )
    mine = gradient(part, found.loss[part.mask].sum())
    assert torch.allclose(mine, gradient(part, expected), atol=1e-12)
    assert mine[~part.mask].abs().max() == 0


@pytest.mark.parametrize("seed", range(6))
def test_cispo_weighs_log_probabilities_and_cuts_no_gradient(seed):
    part = loss_input(seed, policy_loss="cispo", clip_ratio_high=0.28)
    found = POLICY_LOSSES["cispo"].function(part)
    grad = gradient(part, found.loss[part.mask].sum())
    for row, t in part.mask.nonzero().tolist():
        ratio = math.exp(float((part.logprobs - part.old_logprobs).detach()[row, t]))
        weight = min(max(ratio, 0.8), 1.28)
        assert float(grad[row, t]) == pytest.approx(-weight * float(part.advantages[row, t]))
        assert bool(found.clipped[row, t]) == (weight != ratio)


def test_published_aggregations_are_named(tmp_path, tiny, caplog):
    trainer(tmp_path, {"loss": {"policy_loss": "gspo"}, "model": str(tiny)})
    assert (
        "loss.policy_loss=gspo was published with loss.agg_mode=seq-mean-token-mean" in caplog.text
    )


def test_masked_importance_sampling():
    mask = TURNS >= 0
    engine = torch.zeros(TURNS.shape)
    ours = torch.log(torch.tensor([[9.0, 1, 4, 9, 1, 1, 0.1], [9, 4, 4, 4, 4, 9, 9]]))
    tokens = within_bounds(ours, engine, mask, 0.5, 2.0)
    assert tokens.tolist() == [[False, True, False, False, True, True, False], [False] * 7]


def test_what_is_masked_leaves_the_loss_and_its_denominator(tmp_path, tiny):
    """Bounds that only a part of the tokens meets, since the engine's numbers are shifted here."""
    found = []
    for bounds in (None, [0.999, 1.001]):
        layer = {"model": str(tiny), "loss": {"mis_bounds": bounds, "agg_mode": "token-mean"}}
        one = trainer(tmp_path / str(bounds), layer, preset="starpo-grpo")
        batch = played(one)
        batch.rollout_logprobs[:, ::2] += 1.0
        prepared = one.learner.prepare(batch)
        found.append(prepared)
        one.close()
    plain, masked = found
    assert masked.inputs.mask.sum() < plain.inputs.mask.sum()
    assert masked.metrics["masked_share"] == pytest.approx(
        1 - float(masked.inputs.mask.sum() / plain.inputs.mask.sum())
    )
    odd = torch.arange(masked.inputs.mask.shape[1]) % 2 == 1
    assert torch.equal(masked.inputs.mask, plain.inputs.mask & odd)


def played(one):
    from ragen_agents.starpo.update.batch import TrainBatch

    one.engine.sync(one.learner.whole_policy(), 0)
    return TrainBatch.of(one._rollout.collect(0).trajectories, one.codec.pad)


def test_bounds_must_hold_one(capsys):
    assert main(["train", "bandit", "loss.mis_bounds=[1.5, 2]", "--out", "unused"]) == 2
    assert "loss.mis_bounds is [1.5, 2.0]" in capsys.readouterr().err


def episode(group, turns):
    """An episode of turns (state, turns left, reward), two tokens each."""
    made = Trajectory(group, 0, [1])
    for state, left, reward in turns:
        made.append_reply([5, 6], [0.0, 0.0], 0)
        made.turns.append(
            TrajectoryTurn("", {"game": reward}, True, True, 1, False, state, Budget(left, left, 1))
        )
    return made


def gigpo(episodes, turn_gamma, **params):
    turn_ids = torch.full((len(episodes), 1 + max(2 * len(e.turns) for e in episodes)), -1)
    for row, each in enumerate(episodes):
        turn_ids[row, : len(each.turn_ids)] = torch.tensor(each.turn_ids)
    estimator = ESTIMATORS["gigpo"]
    batch = EstimatorInput(
        rewards=torch.zeros(turn_ids.shape), values=None,
        returns=torch.tensor([e.episode_return for e in episodes]),
        groups=torch.tensor([e.group for e in episodes]), turn_ids=turn_ids, trajectories=episodes,
        settings=TrainConfig(advantage={"turn_gamma": turn_gamma}).advantage,
        params={**estimator.params, **params},
    )  # fmt: skip
    found = estimator.function(batch).advantages
    return [
        [float(found[row, 1 + 2 * t]) for t in range(len(e.turns))]
        for row, e in enumerate(episodes)
    ]


def slow_gigpo(episodes, turn_gamma, omega=1.0, budget=1.0, divide=1.0):
    def normal(value, among):
        if len(among) < 2 or statistics.stdev(among) < 1e-8:
            return 0.0
        return (value - statistics.fmean(among)) / (statistics.stdev(among) if divide else 1.0)

    def key(turn):
        return turn.state, turn.budget if budget else None

    def ahead(each, t):
        return sum(turn_gamma ** (k - t) * each.turns[k].reward for k in range(t, len(each.turns)))

    found = []
    for own in episodes:
        peers = [e for e in episodes if e.group == own.group]
        whole = normal(own.episode_return, [e.episode_return for e in peers])
        row = []
        for t, turn in enumerate(own.turns):
            alike = [
                ahead(e, k)
                for e in peers
                for k, other in enumerate(e.turns)
                if key(other) == key(turn)
            ]
            row.append(whole + omega * normal(ahead(own, t), alike))
        found.append(row)
    return found


TURN = st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.integers(-2, 2).map(float))


@given(
    st.lists(
        st.builds(episode, st.integers(0, 1), st.lists(TURN, min_size=1, max_size=4)),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([1.0, 0.9]),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 1.0]),
)
def test_gigpo_compares_turns_that_start_in_one_state(episodes, turn_gamma, budget, divide):
    settings = {"omega": 0.5, "budget": budget, "divide": divide}
    found = gigpo(episodes, turn_gamma, **settings)
    expected = slow_gigpo(episodes, turn_gamma, **settings)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


def test_the_key_of_a_state_may_hold_what_is_left():
    """Two visits of one state, one of them with a turn less: alike only if the budget is left out."""
    pair = [episode(0, [("a", 2, 0.0), ("a", 1, 1.0)]), episode(0, [("b", 2, 1.0)])]
    assert gigpo(pair, 0.5)[0] == pytest.approx([0.0, 0.0])
    assert gigpo(pair, 0.5, budget=0.0)[0] == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_trajectories_know_the_state_that_was_replied_to(tmp_path, tiny):
    one = trainer(tmp_path, {"model": str(tiny)}, preset="starpo-grpo")
    one.engine.sync(one.learner.whole_policy(), 0)
    for each in one._rollout.collect(0).trajectories:
        env = one._make_env()
        env.reset(**{"seed": training_groups(one.config, 0)[each.group].options["seed"]})
        first = each.turns[0]
        assert first.state == env.state_text()
        assert first.budget == env.budget
        lefts = [turn.budget.turns for turn in each.turns]
        assert lefts == list(range(lefts[0], lefts[0] - len(lefts), -1))
    one.close()


def characters(reply, result):
    return float(len(reply))


@pytest.mark.parametrize(
    "layer",
    [
        {"advantage": {"estimator": "gigpo"}},
        {"loss": {"policy_loss": "gspo", "agg_mode": "seq-mean-token-mean"}},
        {"loss": {"policy_loss": "cispo", "mis_bounds": [0.5, 2]}},
        {"filter": {"kind": "top-p", "ratio": 0.9}},
    ],
    ids=["gigpo", "gspo", "cispo", "top-p"],
)
def test_it_trains(layer, tmp_path, tiny):
    short = {"model": str(tiny), "iterations": 1, "evaluation": {"every": 0}}
    trainer(tmp_path, short, layer, preset="starpo-grpo", reward=characters).run()
    assert lines(tmp_path)[0]["grad_norm"] > 0


def test_refill_replaces_groups_of_equal_returns_within_its_bound(tmp_path, tiny):
    """A reward that is equal in each first group of two, whose place fresh levels must take."""

    def reward(group, member):
        return float(member) if group % 2 else 0.0

    def run(name, refill):
        layer = {
            "model": str(tiny), "iterations": 1, "filter": {"kind": "none", "refill": refill},
            "evaluation": {"every": 0},
        }  # fmt: skip
        one = trainer(tmp_path / name, layer, preset="starpo-grpo")
        collect = one.collector.collect

        def scored(specs, iteration):
            found = collect(specs, iteration)
            for each in found:
                for turn in each.turns:
                    turn.rewards = {"game": 0.0}
                each.turns[0].rewards = {"game": reward(each.group, each.member)}
            return found

        one.collector.collect = scored
        one.run()
        return lines(tmp_path / name)[0]

    plain, once = run("plain", 0), run("once", 3)
    assert (plain["played_groups"], plain["kept_groups"]) == (2, 2)
    assert (once["played_groups"], once["kept_groups"]) == (4, 2)
    assert once["reward_std_zero"] == 0.5
    assert once["grad_norm"] > 0


def test_refills_have_levels_of_their_own():
    config = TrainConfig(rollout={"prompts_per_iteration": 4})
    rounds = [training_groups(config, 0, refill) for refill in range(3)]
    assert [spec.group for each in rounds for spec in each] == list(range(12))
    assert len({spec.options["seed"] for each in rounds for spec in each}) == 12


def test_refill_needs_groups():
    with pytest.raises(ValueError, match=r"rollout\.group_size is 1, but filter\.refill=2"):
        TrainConfig(filter={"refill": 2}, rollout={"group_size": 1}, advantage={"estimator": "gae"})
