"""StarPO's mathematics against slow versions written from the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from ragen_agents.starpo import AGGREGATIONS, BatchTotals  # noqa: E402
from ragen_agents.starpo.math import advantages as adv  # noqa: E402
from ragen_agents.starpo.math import losses  # noqa: E402
from ragen_agents.starpo.parts.filters import apply_filter  # noqa: E402
from ragen_agents.starpo.update.batch import Size, micro_batches, mini_batches, shared_micro_batches  # noqa: E402

QUICK = settings(max_examples=60)
UNIT = st.floats(0.0, 1.0)
NUMBER = st.floats(-3.0, 3.0, width=32)


@st.composite
def trajectories(draw):
    """Rows of turn ids with context between turns, and values and rewards on every token."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        ids = [-1] * draw(st.integers(1, 3))
        for turn in range(draw(st.integers(1, 4))):
            ids += [turn] * draw(st.integers(1, 4)) + [-1] * draw(st.integers(0, 3))
        rows.append(ids)
    longest = max(map(len, rows))
    turn_ids = torch.tensor([r + [-1] * (longest - len(r)) for r in rows])
    seed = draw(st.integers(0, 10**6))
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(turn_ids.shape, generator=generator)
    rewards = torch.where(turn_ids >= 0, torch.randn(turn_ids.shape, generator=generator), 0.0)
    sparse = torch.rand(turn_ids.shape, generator=generator) < 0.5
    return turn_ids, values, torch.where(sparse, rewards, 0.0)


def slow_gae(rewards, values, gamma, lam):
    """From the sum over k of (gamma lam)^k delta."""
    n = len(rewards)
    after = [*values[1:], 0.0]
    deltas = [rewards[i] + gamma * after[i] - values[i] for i in range(n)]
    return [sum((gamma * lam) ** (k - i) * deltas[k] for k in range(i, n)) for i in range(n)]


@given(trajectories(), UNIT, UNIT)
@QUICK
def test_gae_is_that_of_the_action_tokens_alone(case, gamma, lam):
    turn_ids, values, rewards = case
    mask = turn_ids >= 0
    found, returns = adv.gae(rewards, values, mask, gamma, lam)
    for row in range(len(turn_ids)):
        at = mask[row]
        expected = slow_gae(rewards[row][at].tolist(), values[row][at].tolist(), gamma, lam)
        assert found[row][at].tolist() == pytest.approx(expected, abs=1e-4)
    assert torch.allclose(returns[mask], (found + values)[mask])
    assert (found[~mask] == 0).all()


@given(trajectories(), UNIT, UNIT, UNIT, UNIT, st.booleans())
@QUICK
def test_turn_and_bilevel_gae(case, gamma, lam, turn_gamma, turn_lam, at_last):
    turn_ids, values, rewards = case
    turn_adv, turn_returns, read = adv.turn_gae(rewards, values, turn_ids, turn_gamma, turn_lam, at_last)
    both, _ = adv.bilevel_gae(rewards, values, turn_ids, gamma, lam, turn_gamma, turn_lam, at_last)
    for row in range(len(turn_ids)):
        turns = [turn_ids[row] == k for k in range(int(turn_ids[row].max()) + 1)]
        value = [float(values[row][at][-1 if at_last else 0]) for at in turns]
        reward = [float(rewards[row][at].sum()) for at in turns]
        expected = slow_gae(reward, value, turn_gamma, turn_lam)
        for at, of_turn, start in zip(turns, expected, value, strict=True):
            assert turn_adv[row][at].tolist() == pytest.approx([of_turn] * int(at.sum()), abs=1e-4)
            inside = values[row][at].tolist()
            goal = [0.0] * (len(inside) - 1) + [of_turn + start]
            assert both[row][at].tolist() == pytest.approx(slow_gae(goal, inside, gamma, lam), abs=1e-4)
            assert int((read[row] & at).sum()) == 1
    assert torch.allclose(turn_returns[read], (turn_adv + values)[read])


def test_one_turn_turn_gae_without_discount_is_return_minus_value():
    turn_ids = torch.tensor([[-1, 0, 0, -1]])
    values = torch.tensor([[9.0, 2.0, 5.0, 9.0]])
    rewards = torch.tensor([[0.0, 0.0, 7.0, 0.0]])
    found, _, _ = adv.turn_gae(rewards, values, turn_ids, 1.0, 1.0)
    assert found.tolist() == [[0.0, 5.0, 5.0, 0.0]]


def test_an_all_zero_reward_trajectory_has_turns():
    turn_ids = torch.tensor([[0, 0, -1, 1]])
    values = torch.tensor([[1.0, 2.0, 0.0, 4.0]])
    found, _ = adv.bilevel_gae(torch.zeros(1, 4), values, turn_ids, 1.0, 1.0, 1.0, 1.0)
    assert found.tolist() == [[-1.0, -2.0, 0.0, -4.0]]


@given(st.lists(st.tuples(NUMBER, st.integers(0, 3)), min_size=1, max_size=16))
@QUICK
def test_grpo(pairs):
    returns = torch.tensor([r for r, _ in pairs])
    groups = torch.tensor([g for _, g in pairs])
    found = adv.grpo(returns, groups)
    for group in set(groups.tolist()):
        inside = [float(r) for r, g in zip(returns, groups, strict=True) if g == group]
        got = found[groups == group].tolist()
        spread = np.std(inside, ddof=1) if len(inside) > 1 else 0.0
        if spread < 1e-6:
            assert len(set(inside)) > 1 or not any(got)
            continue
        expected = [(r - np.mean(inside)) / spread for r in inside]
        assert got == pytest.approx(expected, rel=1e-2, abs=1e-2)


GROUP_RELATIVE = pytest.mark.parametrize("estimate", [adv.grpo, adv.dr_grpo, adv.rloo])


@GROUP_RELATIVE
def test_a_group_of_one_and_a_group_of_equal_returns_have_advantage_zero(estimate):
    found = estimate(torch.tensor([3.0, 1.0, 1.0]), torch.tensor([0, 1, 1]))
    assert found.tolist() == [0.0, 0.0, 0.0]


@GROUP_RELATIVE
@pytest.mark.parametrize("size", [3, 6, 7, 8, 12, 16])
def test_equal_returns_have_advantage_zero_where_their_mean_is_rounded(estimate, size):
    """In float32 the mean of eight times 10.9 is not 10.9."""
    returns = torch.arange(-200, 1200).repeat_interleave(size) / 100
    groups = torch.arange(1400).repeat_interleave(size)
    assert not estimate(returns, groups).any()


@pytest.mark.parametrize("size", [3, 6, 7, 8, 12, 16])
def test_whitened_equal_advantages_are_zero_where_their_mean_is_rounded(size):
    for value in (0.15, 10.9):
        whitened = adv.whiten(torch.full((size, 200), value), torch.ones(size, 200, dtype=torch.bool))
        assert whitened.abs().max() < 1e-5


def test_rewards_lie_on_the_last_action_token_of_their_turn():
    turn_ids = torch.tensor([[-1, 0, 0, -1, 1, -1], [-1, 1, 1, -1, -1, -1]])
    placed = adv.place_rewards([[2.0, 3.0], [5.0, 7.0]], turn_ids)
    assert placed.tolist() == [[0, 0, 2, 0, 3, 0], [0, 5, 7, 0, 0, 0]]


@given(trajectories())
@QUICK
def test_whitening(case):
    turn_ids, values, _ = case
    mask = turn_ids >= 0
    found = adv.whiten(values, mask)[mask]
    assert float(found.mean()) == pytest.approx(0, abs=1e-4)
    if len(found) > 1:
        assert float(found.std()) == pytest.approx(1, abs=1e-3)


@given(NUMBER, NUMBER, NUMBER, st.floats(0.05, 0.5), st.floats(0.05, 0.5), st.none() | st.just(3.0))
@QUICK
def test_clipped_surrogate(new, old, advantage, low, high, dual):
    found = losses.clipped_surrogate(
        torch.tensor([[new]]), torch.tensor([[old]]), torch.tensor([[advantage]]), low, high, dual
    )
    ratio = math.exp(new - old)
    objective = min(ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage)
    if dual is not None and advantage < 0:
        objective = max(objective, dual * advantage)
    assert float(found.loss) == pytest.approx(-objective, rel=1e-4, abs=1e-4)


def test_clipped_tokens_have_no_gradient():
    new = torch.tensor([[0.5, -0.5, 0.5, 0.0]], requires_grad=True)
    gains = torch.tensor([[1.0, -1.0, -1.0, 1.0]])
    found = losses.clipped_surrogate(new, torch.zeros(1, 4), gains, 0.2, 0.28)
    found.loss.sum().backward()
    assert found.clipped.tolist() == [[True, True, False, False]]
    assert (new.grad != 0).tolist() == [[False, False, True, True]]


def test_value_loss():
    values, old, returns = torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([3.0])
    assert float(losses.value_loss(values, old, returns)) == 0.5
    assert float(losses.value_loss(values, old, returns, clip=1.0)) == 2.0


def test_kl_estimates_agree_with_the_divergence():
    torch.manual_seed(0)
    policy = torch.log_softmax(torch.randn(6), -1)
    reference = torch.log_softmax(torch.randn(6), -1)
    exact = float((policy.exp() * (policy - reference)).sum())
    drawn = torch.multinomial(policy.exp(), 200_000, replacement=True)
    for kind in ("k1", "k3"):
        found = losses.kl_estimate(policy[drawn], reference[drawn], kind)
        assert float(found.mean()) == pytest.approx(exact, abs=0.02)
    assert (losses.kl_estimate(policy[drawn], reference[drawn], "k3") >= 0).all()


def test_k2_has_the_gradient_of_the_divergence():
    logits = torch.tensor([0.3, -1.0, 0.7], requires_grad=True)
    reference = torch.log_softmax(torch.tensor([1.0, 0.0, -1.0]), -1)
    policy = torch.log_softmax(logits, -1)
    (policy.exp() * (policy - reference)).sum().backward()
    exact, logits.grad = logits.grad, None
    policy = torch.log_softmax(logits, -1)
    weighted = policy.exp().detach() * losses.kl_estimate(policy, reference, "k2")
    weighted.sum().backward()
    assert torch.allclose(exact, logits.grad, atol=1e-6)


AGGREGATED = {
    "seq-mean-token-sum": lambda rows: float(np.mean([float(r.sum()) for r in rows])),
    "token-mean": lambda rows: float(torch.cat(rows).mean()),
    "seq-mean-token-mean": lambda rows: float(np.mean([float(r.mean()) for r in rows])),
    "seq-mean-token-sum-norm": lambda rows: float(np.mean([float(r.sum()) for r in rows])) / 50,
}


@pytest.mark.parametrize("how", AGGREGATIONS.names)
@given(case=trajectories(), cut=st.integers(0, 4))
@QUICK
def test_aggregation_does_not_depend_on_the_cut(how, case, cut):
    turn_ids, values, _ = case
    mask = turn_ids >= 0
    totals = BatchTotals(float(mask.sum()), float(len(mask)), 0.0, 50.0)
    aggregate = AGGREGATIONS[how].function
    whole = aggregate(values, mask, totals)
    parts = [aggregate(values[part], mask[part], totals) for part in (slice(0, cut), slice(cut, None))]
    assert float(sum(parts)) == pytest.approx(float(whole), abs=1e-5)
    rows = [values[i][mask[i]] for i in range(len(mask))]
    assert float(whole) == pytest.approx(AGGREGATED[how](rows), abs=1e-5)


def test_importance_weights_are_truncated_and_without_gradient():
    trainer = torch.tensor([0.0, 2.0, -1.0], requires_grad=True)
    found = losses.importance_weights(trainer, torch.zeros(3), 2.0)
    assert found.tolist() == pytest.approx([1.0, 2.0, math.exp(-1)])
    assert not found.requires_grad


def test_explained_variance():
    returns = torch.tensor([1.0, 2.0, 3.0])
    assert losses.explained_variance(returns, returns) == 1.0
    assert losses.explained_variance(torch.zeros(3), returns) == 0.0
    assert losses.explained_variance(returns, torch.ones(3)) == 0.0


RETURNS = [np.array(r, float) for r in ([0, 0], [0, 10], [5], [1, 2], [0, 10], [3, 3])]


@pytest.mark.parametrize(
    ("kind", "keep", "expected"),
    [
        ("none", 0.5, [0, 1, 2, 3, 4, 5]),
        ("std", 0.25, [1, 4]),
        ("std", 0.01, [1]),
        ("std", 1.0, [1, 3, 4]),
        ("nonzero", 0.1, [1, 3, 4]),
        ("variance-share", 0.4, [1]),
        ("variance-share", 0.9, [1, 4]),
        ("variance-share", 1.0, [1, 3, 4]),
    ],
)
def test_filters(kind, keep, expected):
    assert apply_filter(RETURNS, kind, keep, 0) == expected


def test_filters_may_keep_nothing():
    same = [np.ones(4), np.zeros(4), np.array([2.0])]
    for kind in ("std", "variance-share", "nonzero"):
        assert apply_filter(same, kind, 0.5, 0) == []


def test_a_random_share_is_random_and_repeatable():
    drawn = [tuple(apply_filter(RETURNS, "random", 0.5, seed)) for seed in range(50)]
    assert all(len(groups) == 3 for groups in drawn)
    assert len(set(drawn)) > 5
    assert apply_filter(RETURNS, "random", 0.5, 7) == list(drawn[7])


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3), st.integers(0, 99))
@QUICK
def test_optimizer_batches_use_everything_once_an_epoch(count, steps, epochs, seed):
    parts = mini_batches(count, steps, epochs, seed)
    assert len(parts) == epochs * min(steps, count)
    assert sorted(row for part in parts for row in part) == sorted(list(range(count)) * epochs)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


SIZES = st.lists(
    st.builds(Size, st.integers(1, 50), st.integers(0, 50), st.integers(1, 3)),
    min_size=1,
    max_size=30,
)


@given(SIZES, st.integers(10, 400))
@QUICK
def test_passes_stay_in_their_budget(sizes, budget):
    parts = micro_batches(sizes, range(len(sizes)), budget)
    assert sorted(row for part in parts for row in part) == list(range(len(sizes)))
    for part in parts:
        width = max(sizes[one].before for one in part) + max(sizes[one].after for one in part)
        assert sum(sizes[one].rows for one in part) * width <= budget or len(part) == 1


@given(SIZES, st.integers(10, 400), st.integers(2, 5))
@QUICK
def test_processes_share_the_passes_out(sizes, budget, processes):
    whole = micro_batches(sizes, range(len(sizes)), budget)
    parts = shared_micro_batches(sizes, range(len(sizes)), budget, processes)
    assert sorted(row for part in parts for row in part) == list(range(len(sizes)))
    assert -(-len(parts) // processes) == -(-len(whole) // processes)
    assert largest(sizes, parts) <= largest(sizes, whole)


def largest(sizes, parts):
    """The tokens of the largest pass with padding."""
    return max(
        sum(sizes[one].rows for one in part)
        * (max(sizes[one].before for one in part) + max(sizes[one].after for one in part))
        for part in parts
    )


def test_every_process_has_a_pass_where_all_would_fit_into_one():
    sizes = [Size(100, 130, 1)] * 32
    assert len(micro_batches(sizes, range(32), 16384)) == 1
    assert list(map(len, shared_micro_batches(sizes, range(32), 16384, 4))) == [8] * 4
