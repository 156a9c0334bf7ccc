"""The gradient probe against what training itself does with the same groups."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from training_runs import assert_equal_weights, lines, trainer  # noqa: E402

from ragen_agents.starpo.run.diagnostics import _buckets  # noqa: E402

PROBED = {
    "iterations": 1,
    "game": "ragen/SokobanText-v0",
    "model": "starter",
    "rollout": {"prompts_per_iteration": 6, "group_size": 4, "max_tokens": 120},
    "update": {"mini_batch_size": 24, "learning_rate": 1e-3},
    "evaluation": {"every": 0},
    "save_every": 1,
    "loss": {"entropy_coef": 0.0},
    "env_kwargs": {"max_turns": 1},
}


def metrics(folder, *layers, preset="starpo-grpo"):
    trainer(folder, PROBED, *layers, preset=preset).run()
    return lines(folder)[-1]


PROBE = {"monitor": {"gradients_every": 1}}


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A run with a probe."""
    folder = tmp_path_factory.mktemp("runs") / "probed"
    return folder, metrics(folder, PROBE)


def test_the_last_bucket_has_the_gradient_of_the_group_that_differs_most(probed, tmp_path):
    _, found = probed
    only = metrics(tmp_path / "only", {"filter": {"kind": "std", "ratio": 1 / 6}})
    assert only["kept_groups"] == only["optimizer_steps"] == 1
    assert found["gradient/bucket6/policy"] == pytest.approx(only["grad_norm"], rel=1e-4)


def test_a_probe_changes_nothing_of_the_run(probed, tmp_path):
    folder, found = probed
    plain = metrics(tmp_path / "plain")
    assert {k: v for k, v in found.items() if not k.startswith("gradient/")} == plain
    assert_equal_weights(tmp_path / "plain/checkpoints/000001", folder / "checkpoints/000001")


def test_buckets_are_in_the_order_of_their_deviations(probed):
    _, found = probed
    deviations = [found[f"gradient/bucket{k}/reward_std"] for k in range(1, 7)]
    assert deviations == sorted(deviations)
    for k, deviation in enumerate(deviations, 1):
        assert (found[f"gradient/bucket{k}/policy"] > 0) == (deviation > 0)
        assert found[f"gradient/bucket{k}/entropy"] > 0
        # Before the first step the policy is the initial one, from which it does not diverge.
        assert found[f"gradient/bucket{k}/divergence"] == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("groups", [1, 5, 6, 8, 11, 24, 27])
def test_all_buckets_have_as_many_groups(groups):
    """The mean gradient of fewer groups is larger, whatever their deviations."""
    deviations = np.random.default_rng(0).permutation(groups).astype(float)
    found = [deviations[bucket].tolist() for bucket in _buckets(deviations)]
    assert {len(bucket) for bucket in found} == {max(groups // 6, 1)}
    assert len(found) == min(groups, 6)
    joined = [deviation for bucket in found for deviation in bucket]
    assert joined == sorted(joined)
    assert (joined[0], joined[-1]) == (0, groups - 1)


def test_without_a_filter_a_reward_without_parts_can_be_probed(tmp_path):
    parts = {"reward": {"in_filter": False}}
    run = trainer(tmp_path, PROBED, PROBE, parts, preset="starpo-grpo", reward=lambda reply, result: 1.0)
    run.run()
    assert lines(tmp_path)[-1]["gradient/bucket6/reward_std"] == 0


def test_a_critic_is_no_hindrance_and_a_missing_term_is_left_out(tmp_path):
    found = metrics(tmp_path / "run", PROBE, preset="starpo-ppo")
    names = {name.split("/")[2] for name in found if name.startswith("gradient/")}
    assert names == {"reward_std", "policy", "entropy"}


def test_fewer_groups_than_buckets_leave_buckets_out(tmp_path):
    found = metrics(tmp_path / "run", PROBE, {"rollout": {"prompts_per_iteration": 2}})
    buckets = {name.split("/")[1] for name in found if name.startswith("gradient/")}
    assert buckets == {"bucket1", "bucket2"}
