"""Published methods against slow ones: losses, estimators, filters, DAPO's refill, importance sampling."""

import itertools
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn  # noqa: E402
from ragen_agents.starpo import AGGREGATIONS, ESTIMATORS, POLICY_LOSSES, TrainConfig  # noqa: E402
from ragen_agents.starpo.ignored_settings import setting_warnings  # noqa: E402
from ragen_agents.starpo.math.advantages import (  # noqa: E402
    bilevel_gae,
    gpg,
    maxrl,
    opo,
    place_rewards,
    reinforce,
)
from ragen_agents.starpo.math.losses import within_bounds  # noqa: E402
from ragen_agents.starpo.parts.aggregations import BatchTotals  # noqa: E402
from ragen_agents.starpo.parts.estimators import EstimatorInput  # noqa: E402
from ragen_agents.starpo.parts.filters import apply_filter  # noqa: E402
from ragen_agents.starpo.parts.policy_losses import PolicyLossInput  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_envs.game.oracle import Budget  # noqa: E402

RETURNS = st.lists(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=5), min_size=1, max_size=8)


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
    advantages = torch.randn(len(TURNS), 1, generator=drawn, dtype=torch.float64).expand(TURNS.shape)
    return PolicyLossInput(
        logprobs=new.requires_grad_(), old_logprobs=old, rollout_logprobs=old, advantages=advantages,
        turn_ids=TURNS, mask=TURNS >= 0, settings=TrainConfig(loss=settings).loss,
        params=POLICY_LOSSES[settings["policy_loss"]].params,
    )  # fmt: skip


def gradient(part, loss):
    (found,) = torch.autograd.grad(loss, part.logprobs)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_gspo_is_ppo_with_one_ratio_a_sequence(seed):
    """With one advantage per trajectory, the gradient of the ratio is that of the sequence form."""
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
        assert found.loss[row, places].tolist() == pytest.approx([float(one.detach())] * len(places))
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
        weight = min(ratio, 1.28)  # no lower bound
        assert float(grad[row, t]) == pytest.approx(-weight * float(part.advantages[row, t]))
        assert bool(found.clipped[row, t]) == (weight != ratio)


@pytest.mark.parametrize("seed", range(6))
def test_gmpo_is_the_geometric_mean_of_clipped_ratios(seed):
    part = loss_input(seed, policy_loss="gmpo", clip_ratio_low=0.4, clip_ratio_high=0.3)
    found = POLICY_LOSSES["gmpo"].function(part)
    expected = torch.zeros((), dtype=torch.float64)
    for row in range(len(TURNS)):
        inside = part.mask[row]
        advantage = part.advantages[row, 0]
        gaps = (part.logprobs - part.old_logprobs)[row, inside]
        sign = torch.sign(advantage)
        kept = sign * torch.minimum(sign * gaps, sign * gaps.clamp(-0.4, 0.3))
        one = -advantage * kept.mean().exp()
        expected = expected + one
        assert found.loss[row, inside].tolist() == pytest.approx([float(one.detach())] * len(gaps))
    mine = (found.loss * part.mask).sum(1) / part.mask.sum(1)
    assert torch.allclose(gradient(part, mine.sum()), gradient(part, expected), atol=1e-12)


ADVANTAGES = torch.tensor([[0.0, 5, -5, 0, 0, 0, 0], [0, 0, 0, -5, 5, 0, 0]], dtype=torch.float64)
"""The advantages of each trajectory sum to 0, but those of its tokens differ."""


@pytest.mark.parametrize("loss", POLICY_LOSSES.names)
@pytest.mark.parametrize("aggregation", AGGREGATIONS.names)
def test_every_token_is_moved_by_its_own_advantage(loss, aggregation):
    part = loss_input(0, policy_loss=loss)
    part = replace(
        part, logprobs=part.old_logprobs.clone().requires_grad_(), advantages=ADVANTAGES,
        params=POLICY_LOSSES[loss].params,
    )  # fmt: skip
    totals = BatchTotals(float(part.mask.sum()), 2.0, 0.0, 8.0)
    per_token = POLICY_LOSSES[loss].function(part).loss
    moved = -gradient(part, AGGREGATIONS[aggregation].function(per_token, part.mask, totals))
    assert torch.equal(moved.sign(), (ADVANTAGES * part.mask).sign())
    scale = (moved[part.mask] / ADVANTAGES[part.mask]).nan_to_num()
    by_row = {"token-mean": 1 / 9, "seq-mean-token-sum": 1 / 2, "seq-mean-token-sum-norm": 1 / 16}
    expected = [1 / 10, 1 / 8] if aggregation == "seq-mean-token-mean" else [by_row[aggregation]] * 2
    assert scale[[0, 1, 7, 8]].tolist() == pytest.approx([expected[0]] * 2 + [expected[1]] * 2)


@pytest.mark.parametrize("name", ESTIMATORS.names)
def test_every_estimator_tells_rewards_apart(name):
    """An advantage changes when the last reward of an episode does."""
    episodes = [
        episode(0, [("a", 2, 0.0), (state, 1, reward)])
        for state, reward in (("b", 1.0), ("b", 0.0), ("c", 0.5))
    ]
    better = [*episodes[:2], episode(0, [("a", 2, 0.0), ("c", 1, 2.0)])]
    for each in (episodes, better):
        each[0].success = True
    better[2].success = True
    before, after = (estimated(name, each, turn_gamma=0.9) for each in (episodes, better))
    assert float(after[2, -1] - before[2, -1]) > 0.05
    assert before[:, 0].abs().max() == 0


def test_what_leaves_a_publication_is_named(tmp_path, tiny, caplog):
    trainer(tmp_path / "a", {"loss": {"policy_loss": "gspo"}, "model": str(tiny)})
    gspo = "loss.policy_loss=gspo was published with"
    assert f"{gspo} loss.agg_mode=seq-mean-token-mean, but it is token-mean" in caplog.text
    assert f"{gspo} loss.clip_ratio_low=0.0003, but it is 0.2" in caplog.text
    variant = {"estimator": "gigpo", "turn_gamma": 1.0, "params": {"budget": 1}}
    warned = list(setting_warnings(TrainConfig(advantage=variant)))
    assert [text.split(" with ")[1] for text in warned] == [
        "advantage.turn_gamma=0.95, but it is 1.0",
        "advantage.params.budget=0.0, but it is 1.0",
    ]
    for name in ("gigpo", "bilevel-gae", "opo", "maxrl", "reinforce++"):
        assert not list(setting_warnings(TrainConfig(advantage={"estimator": name})))


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
    return TrainBatch.of(one.collect(0).trajectories, one.codec.pad)


def test_bounds_must_hold_one(capsys):
    assert main(["train", "bandit", "loss.mis_bounds=[1.5, 2]", "--out", "unused"]) == 2
    assert "loss.mis_bounds is [1.5, 2.0]" in capsys.readouterr().err


def episode(group, turns):
    """An episode of turns (state, turns left, reward), two tokens each."""
    made = Trajectory(group, 0, [1])
    for state, left, reward in turns:
        made.append_reply([5, 6], [0.0, 0.0])
        made.turns.append(
            TrajectoryTurn("", {"game": reward}, True, True, 1, False, state, Budget(left, left, 1))
        )
    return made


def estimated(name, episodes, turn_gamma, **params):
    """Return the advantages that an estimator gives to the episodes' tokens, with a critic that says 0.1."""
    turn_ids = torch.full((len(episodes), 1 + max(2 * len(e.turns) for e in episodes)), -1)
    for row, each in enumerate(episodes):
        turn_ids[row, : len(each.turn_ids)] = torch.tensor(each.turn_ids)
    estimator = ESTIMATORS[name]
    rewards = place_rewards([[turn.reward for turn in e.turns] for e in episodes], turn_ids)
    batch = EstimatorInput(
        rewards=rewards, values=torch.where(turn_ids >= 0, 0.1, 0.0),
        returns=torch.tensor([e.episode_return for e in episodes]),
        groups=torch.tensor([e.group for e in episodes]), turn_ids=turn_ids, trajectories=episodes,
        settings=TrainConfig(advantage={"turn_gamma": turn_gamma}).advantage,
        params={**estimator.params, **params},
    )  # fmt: skip
    return estimator.function(batch).advantages


def gigpo(episodes, turn_gamma, **params):
    found = estimated("gigpo", episodes, turn_gamma, **params)
    return [[float(found[row, 1 + 2 * t]) for t in range(len(e.turns))] for row, e in enumerate(episodes)]


def slow_gigpo(episodes, turn_gamma, omega=1.0, budget=0.0, divide=1.0, over_turns=1.0):
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
        counted = [e for e in peers for _ in (e.turns if over_turns else [e])]
        whole = normal(own.episode_return, [e.episode_return for e in counted])
        row = []
        for t, turn in enumerate(own.turns):
            alike = [ahead(e, k) for e in peers for k, other in enumerate(e.turns) if key(other) == key(turn)]
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
    st.fixed_dictionaries(dict.fromkeys(["budget", "divide", "over_turns"], st.sampled_from([0.0, 1.0]))),
)
def test_gigpo_compares_turns_that_start_in_one_state(episodes, turn_gamma, variant):
    settings = {"omega": 0.5, **variant}
    found = gigpo(episodes, turn_gamma, **settings)
    expected = slow_gigpo(episodes, turn_gamma, **settings)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)


def test_the_key_of_a_state_may_hold_what_is_left():
    """Two visits of one state, one of them with a turn less: alike only if the budget is left out."""
    pair = [episode(0, [("a", 2, 0.0), ("a", 1, 1.0)]), episode(0, [("b", 2, 1.0)])]
    assert gigpo(pair, 0.5, budget=1.0)[0] == pytest.approx([0.0, 0.0])
    assert gigpo(pair, 0.5)[0] == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_published_gigpo_has_a_step_level_with_a_reward_at_the_end_alone():
    """In RAGEN's way of counting, a longer way to the same reward is worth less where it began."""
    pair = [
        episode(0, [("a", 3, 0.0), ("b", 2, 1.0)]),
        episode(0, [("a", 3, 0.0), ("b", 2, 0.0), ("c", 1, 1.0)]),
    ]
    default = TrainConfig(advantage={"estimator": "gigpo"}).advantage.turn_gamma
    assert default == 0.95
    assert gigpo(pair, default)[0] == pytest.approx([0.5**0.5, 0.5**0.5])
    assert gigpo(pair, 1.0) == [[0.0, 0.0], [0.0, 0.0, 0.0]]


def test_the_published_bilevel_gae_on_its_own_example():
    """RAGEN's core_algos.py: two turns of five tokens, rewards of 1, gamma = lam = 1, 0.95 per turn.

    The return at the end of the first turn is 1 + 0.95 * 1.0 + 0.95 * (1 - 1.0), that of the second 1.
    """
    rewards = torch.tensor([[0.0, 0, 0, 0, 1, 0, 0, 0, 0, 1]])
    values = torch.arange(1, 11)[None] / 10
    turns = torch.tensor([[0] * 5 + [1] * 5])
    advantages, returns = bilevel_gae(rewards, values, turns, 1.0, 1.0, 0.95, 1.0)
    assert returns[0].tolist() == pytest.approx([1.95] * 5 + [1.0] * 5)
    assert advantages[0, [0, 4, 5, 9]].tolist() == pytest.approx([1.85, 1.45, 0.4, 0.0])


def test_opo_has_the_baseline_of_least_variance():
    """The mean over levels of the squared length-weighted advantage is least at OPO's baseline."""
    returns, groups = torch.tensor([1.0, 0.0, 0.0, 3.0, 3.0]), torch.tensor([0, 0, 0, 1, 1])
    lengths = torch.tensor([2, 4, 4, 1, 9])
    found = opo(returns, groups, lengths)
    assert found.tolist() == pytest.approx([0.8, -0.2, -0.2, 0.0, 0.0])
    spread = [float((lengths[:3] * (found[:3] + b) ** 2).sum()) for b in (-0.1, 0.0, 0.1)]
    assert min(spread) == spread[1]


def test_gpg_is_not_shrunk_by_groups_of_equal_returns():
    returns, groups = torch.tensor([1.0, 0.0, 2.0, 2.0]), torch.tensor([0, 0, 1, 1])
    assert gpg(returns, groups).tolist() == [1.0, -1.0, 0.0, 0.0]  # alpha = 4 / 2


@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_maxrl_climbs_the_truncated_likelihood(chance):
    """For groups of four, the exact gradient by p has the paper's weight, sum of (1 - p)^(k-1), k < 4."""
    size, slope = 4, 0.0
    for wins in itertools.product([0.0, 1.0], repeat=size):
        weight = math.prod(chance if win else 1 - chance for win in wins)
        advantages = maxrl(torch.tensor(wins), torch.zeros(size, dtype=torch.int64))
        scores = [1 / chance if win else -1 / (1 - chance) for win in wins]
        slope += weight * sum(a * s for a, s in zip(advantages.tolist(), scores, strict=True)) / size
    assert slope == pytest.approx((1 - (1 - chance) ** (size - 1)) / chance, rel=1e-5)


def test_reinforce_whitens_the_rewards_to_come_over_the_batch():
    mask = TURNS >= 0
    rewards = torch.zeros(TURNS.shape)
    rewards[0, 2], rewards[0, 6], rewards[1, 4] = 1.0, 2.0, -1.0
    found = reinforce(rewards, mask, 0.5)[mask]
    slow = torch.tensor([0.5 + 0.125, 1.0 + 0.25, 0.5, 1.0, 2.0, -0.125, -0.25, -0.5, -1.0])
    assert found.tolist() == pytest.approx(((slow - slow.mean()) / slow.std()).tolist(), abs=1e-6)


def test_trajectories_know_the_state_that_was_replied_to(tmp_path, tiny):
    one = trainer(tmp_path, {"model": str(tiny)}, preset="starpo-grpo")
    one.engine.sync(one.learner.whole_policy(), 0)
    for each in one.collect(0).trajectories:
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
