"""RLOO, against a slow implementation, and as a user asks for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import trainer  # noqa: E402

from ragen_agents.starpo import TrainConfig  # noqa: E402
from ragen_agents.starpo.math.advantages import rloo  # noqa: E402

RLOO = {"advantage": {"estimator": "rloo"}}


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 3)), min_size=1, max_size=16),
)
def test_the_baseline_is_the_mean_of_the_others(pairs):
    found = rloo(torch.tensor([float(r) for r, _ in pairs]), torch.tensor([group for _, group in pairs]))
    for i, (own, group) in enumerate(pairs):
        others = [r for k, (r, g) in enumerate(pairs) if g == group and k != i]
        expected = own - sum(others) / len(others) if others else 0.0
        assert float(found[i]) == pytest.approx(expected, abs=1e-4)


def test_it_trains_without_a_critic(tiny, tmp_path):
    reports = []
    one = trainer(
        tmp_path / "run", RLOO, {"model": str(tiny), "iterations": 1}, preset="starpo-grpo",
        reports=reports,
    )  # fmt: skip
    assert one.learner.critic_optimizer is None
    one.run()
    assert reports[-1][1]["grad_norm"] > 0
    assert "value_loss" not in reports[-1][1]


def test_it_needs_groups(tmp_path, capsys):
    assert not TrainConfig(**RLOO).has_critic
    command = ["train", "bandit", "--preset", "starpo-grpo", "advantage.estimator=rloo"]
    assert main([*command, "rollout.group_size=1", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "rollout.group_size is 1" in said
    assert "advantage.estimator=rloo compares the members" in said
