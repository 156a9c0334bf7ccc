"""Dr.GRPO: no deviation in the advantage, no length in the loss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import trainer  # noqa: E402

from ragen_agents.starpo.math.advantages import dr_grpo  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402

DR_GRPO = {
    "advantage": {"estimator": "dr-grpo"},
    "loss": {"agg_mode": "seq-mean-token-sum-norm", "kl": "none"},
    "filter": {"kind": "none"},
}


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 3)), min_size=1, max_size=16),
)
def test_the_baseline_is_the_mean_of_the_group(pairs):
    found = dr_grpo(torch.tensor([float(r) for r, _ in pairs]), torch.tensor([group for _, group in pairs]))
    for i, (own, group) in enumerate(pairs):
        everyone = [r for r, g in pairs if g == group]
        assert float(found[i]) == pytest.approx(own - sum(everyone) / len(everyone), abs=1e-4)


def test_the_loss_is_the_published_one(tiny, tmp_path):
    """At the first step every ratio is 1: minus the advantages over all tokens, over B times the constant."""
    one = trainer(tmp_path, DR_GRPO, {"model": str(tiny), "update": {"mini_batch_size": 8}})
    trajectories = one.collector.collect(training_groups(one.config, 0), 0)
    for number, trajectory in enumerate(trajectories):
        trajectory.turns[0].rewards = {"game": float(number**2)}
        if number % 2:  # trajectories of different lengths
            trajectory.turn_ids = [-1 if turn else 0 for turn in trajectory.turn_ids]
    returns, constant = [t.episode_return for t in trajectories], one.config.rollout.max_tokens
    groups = [t.group for t in trajectories]
    centred = [
        r - sum(x for x, g in zip(returns, groups, strict=True) if g == own) / groups.count(own)
        for r, own in zip(returns, groups, strict=True)
    ]
    expected = -sum(a * t.written for a, t in zip(centred, trajectories, strict=True)) / (8 * constant)
    assert abs(expected) > 0.1
    metrics = one.learner.update(one.learner.prepare(TrainBatch.of(trajectories, one.codec.pad)), iteration=0)
    assert metrics["policy_loss"] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_it_needs_groups(tmp_path, capsys):
    command = ["train", "bandit", "--preset", "starpo-grpo", "advantage.estimator=dr-grpo"]
    assert main([*command, "rollout.group_size=1", "--out", str(tmp_path / "run")]) == 2
    assert "advantage.estimator=dr-grpo compares the members" in capsys.readouterr().err
