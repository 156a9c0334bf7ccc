"""Estimators, filters, losses and aggregations that a user registers, and a few that are refused."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import lines, trainer  # noqa: E402

from ragen_agents.starpo import (  # noqa: E402
    FILTERS,
    AdvantageEstimate,
    Estimator,
    GroupFilter,
    PolicyLoss,
    TokenLoss,
    TrainConfig,
    per_token,
    register_estimator,
    register_filter,
    register_policy_loss,
)
from ragen_agents.starpo.parts.filters import apply_filter  # noqa: E402
from ragen_agents.starpo.rollout_step import training_groups  # noqa: E402
from ragen_agents.starpo.update.batch import TrainBatch  # noqa: E402
from ragen_agents.starpo.update.loss import (  # noqa: E402
    LossInput,
    batch_totals,
    loss_terms,
)
from ragen_agents.starpo.update.models import Scores  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

pytestmark = pytest.mark.usefixtures("own_registries")


def best_of_group(batch):
    best = torch.stack([batch.returns[batch.groups == group].max() for group in batch.groups])
    return AdvantageEstimate(per_token(batch.returns - best, batch.mask))


def test_a_registered_estimator_trains_without_a_critic_and_with_groups_only(plain, tmp_path):
    register_estimator(Estimator("best", best_of_group, "return - best", needs_group=True))
    layer = {**plain, "advantage": {"estimator": "best"}}
    one = trainer(tmp_path, layer, preset="starpo-grpo")
    assert one.learner.critic_optimizer is None
    one.run()
    assert lines(tmp_path)[0]["kept_groups"] == 2
    with pytest.raises(ValueError, match=r"estimator=best compares the members of a group"):
        TrainConfig(advantage={"estimator": "best"}, rollout={"group_size": 1})
    with pytest.raises(ValueError, match=r"loss\.kl=reward has no effect on advantage\.estimator=best"):
        TrainConfig(advantage={"estimator": "best"}, loss={"kl": "reward"})


def estimate(**wrong):
    def function(batch):
        zeros = torch.zeros(batch.mask.shape)
        return AdvantageEstimate(**{"advantages": zeros, **{k: v(zeros) for k, v in wrong.items()}})

    return function


@pytest.mark.parametrize(
    ("function", "needs_critic"),
    [
        (estimate(advantages=lambda z: z[:, 1:]), False),
        (estimate(), True),
        (estimate(value_targets=lambda z: z), False),
    ],
)
def test_an_estimator_that_returns_something_wrong_is_refused(function, needs_critic, plain, tmp_path):
    register_estimator(Estimator("wrong", function, "for the test", needs_critic=needs_critic))
    layer = {**plain, "advantage": {"estimator": "wrong"}}
    with pytest.raises(RagenError, match=r"advantage\.estimator=wrong must return tensors of"):
        trainer(tmp_path, layer).run()


def test_an_estimator_that_returns_a_bare_tensor_is_refused(plain, tmp_path):
    register_estimator(Estimator("bare", lambda batch: torch.zeros(batch.mask.shape), "for the test"))
    with pytest.raises(RagenError, match="returned a Tensor, but must return an AdvantageEstimate"):
        trainer(tmp_path, {**plain, "advantage": {"estimator": "bare"}}).run()


def test_an_estimator_that_divides_by_a_deviation_of_zero_is_refused(plain, tmp_path):
    register_estimator(Estimator("divides", estimate(advantages=lambda z: z / z), "for the test"))
    with pytest.raises(RagenError, match="returned advantages that are not finite"):
        trainer(tmp_path, {**plain, "advantage": {"estimator": "divides"}}).run()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64])
def test_an_estimator_may_return_other_numbers_than_float32(dtype, plain, tmp_path):
    function = estimate(advantages=lambda z: z.to(dtype), value_targets=lambda z: (z + 1).to(dtype))
    register_estimator(Estimator("whole", function, "for the test", needs_critic=True))
    trainer(tmp_path, {**plain, "advantage": {"estimator": "whole"}}).run()
    assert lines(tmp_path)[0]["value_loss"] > 0


def test_a_registered_filter_decides_what_is_kept(plain, tmp_path):
    register_filter(GroupFilter("first", lambda batch: [0], "the first group"))
    trainer(tmp_path, plain, {"filter": {"kind": "first"}}).run()
    assert lines(tmp_path)[0]["kept_groups"] == 1


def test_a_filter_is_not_asked_where_the_game_failed_in_all_groups():
    last = GroupFilter("last", lambda batch: [max(range(len(batch.returns)))], "the last group")
    register_filter(last)
    assert apply_filter([], "last", 0.5, 0) == []


@pytest.mark.parametrize("kept", [[0, 0], [2], [-1], [0.5], None])
def test_a_filter_that_keeps_what_is_not_there_is_refused(kept):
    register_filter(GroupFilter("wrong", lambda batch: kept, "for the test"))
    with pytest.raises(RagenError, match=r"filter\.kind=wrong returned"):
        apply_filter([torch.zeros(2).numpy()] * 2, "wrong", 0.5, 0)


def test_a_registered_policy_loss_is_minimised(plain, tmp_path):
    def reinforce(part):
        loss = -part.advantages * part.logprobs
        return TokenLoss(loss, torch.zeros_like(loss, dtype=torch.bool))

    register_policy_loss(PolicyLoss("reinforce", reinforce, "REINFORCE"))
    norms = {}
    for name in ("ppo-clip", "reinforce"):
        layer = {**plain, "loss": {"policy_loss": name}, "update": {"mini_batch_size": 8}}
        one = trainer(tmp_path / name, layer, preset="starpo-ppo")
        batch = one.collector.collect(training_groups(one.config, 0), 0)
        ready = one.learner.prepare(TrainBatch.of(batch, one.codec.pad))
        norms[name] = one.learner.update(ready, 0)["grad_norm"]
    # At a ratio of 1 the surrogate's gradient is that of REINFORCE.
    assert norms["reinforce"] == pytest.approx(norms["ppo-clip"], rel=1e-3)
    assert norms["reinforce"] > 0


def never(part):
    return torch.zeros(part.logprobs.shape, dtype=torch.bool)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda part: TokenLoss(part.logprobs.mean(), never(part)), "tensors of the shapes"),
        (lambda part: TokenLoss(part.logprobs.detach(), never(part)), "a loss without a gradient"),
    ],
)
def test_a_policy_loss_that_returns_something_wrong_is_refused(function, words, plain, tmp_path):
    register_policy_loss(PolicyLoss("wrong", function, "for the test"))
    with pytest.raises(RagenError, match=f"loss.policy_loss=wrong returned {words}"):
        trainer(tmp_path, plain, {"loss": {"policy_loss": "wrong"}}).run()


def test_a_policy_loss_that_writes_into_its_input_changes_nothing_else():
    def careful(part):
        return TokenLoss(2.0 * part.logprobs, never(part))

    def meddler(part):
        part.mask.fill_(False)
        part.old_logprobs.zero_()
        return TokenLoss(part.logprobs.mul_(2.0), never(part))

    found = []
    for name, function in (("careful", careful), ("meddler", meddler)):
        register_policy_loss(PolicyLoss(name, function, "for the test"))
        how = {"policy_loss": name, "kl": "loss", "kl_estimator": "k2"}
        config = TrainConfig(advantage={"estimator": "grpo"}, loss=how)
        given = torch.full((1, 3), -1.0)
        inputs = LossInput(
            turn_ids=torch.zeros(1, 3, dtype=torch.int64), mask=given < 0, old_logprobs=given.clone(),
            advantages=given, value_targets=given, value_mask=given < 0, old_values=given,
            weights=given.abs(), rollout_logprobs=given, reference_logprobs=given,
        )  # fmt: skip
        weight = torch.full((1, 3), -2.0, requires_grad=True)
        scores = Scores(logprobs=weight * 1.0, entropies=weight * 1.0, values=given)
        terms = loss_terms(config, scores, inputs, batch_totals(config, inputs, [0]))
        (terms.policy + terms.divergence).backward()
        found.append((weight.grad.tolist(), {k: float(v) for k, v in terms.metrics.items()}))
    assert found[0] == found[1]
    assert found[0][1]["kl_step"] > 0


def test_a_part_has_settings_of_its_own(plain, tmp_path):
    seen = []

    def watched(batch):
        seen.append(dict(batch.params))
        return AdvantageEstimate(per_token(batch.returns * batch.params["scale"], batch.mask))

    register_estimator(Estimator("scaled", watched, "", params={"scale": 1.0, "shift": 0.0}))
    layer = {**plain, "advantage": {"estimator": "scaled", "params": {"scale": 3}}}
    trainer(tmp_path, layer).run()
    assert seen == [{"scale": 3.0, "shift": 0.0}]
    with pytest.raises(ValueError, match=r"unknown advantage\.params\.sale; 'scaled' has scale, shift"):
        TrainConfig(advantage={"estimator": "scaled", "params": {"sale": 3}})


def test_an_estimator_sees_values_only_with_a_critic_and_cannot_change_the_batch(plain, tmp_path):
    found = []

    def meddler(batch):
        found.append(batch.values)
        batch.rewards.add_(100)
        batch.turn_ids.fill_(0)
        return AdvantageEstimate(torch.ones_like(batch.rewards))

    register_estimator(Estimator("meddler", meddler, "for the test"))
    trainer(tmp_path, plain, {"advantage": {"estimator": "meddler"}}).run()
    assert found == [None]


def test_an_estimator_apart_from_its_aggregation_is_warned_of(plain, tmp_path, caplog):
    trainer(tmp_path, plain, {"advantage": {"estimator": "dr-grpo"}})
    assert "published with loss.agg_mode=seq-mean-token-sum-norm" in caplog.text


def test_a_built_in_name_cannot_be_registered_again():
    with pytest.raises(RagenError, match=r"advantage\.estimator=grpo is built in"):
        register_estimator(Estimator("grpo", best_of_group, "for the test"))
    first, second = (GroupFilter("mine", lambda batch: [0], text) for text in ("one", "two"))
    register_filter(first)
    register_filter(second)  # as a notebook does that runs a cell again
    assert FILTERS["mine"] is second


def test_an_imported_file_adds_an_estimator_to_the_command(tiny, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_estimator.py").write_text(
        "import torch\n"
        "from ragen_agents.starpo import AdvantageEstimate, Estimator, register_estimator\n"
        "register_estimator(Estimator('zero', lambda batch: AdvantageEstimate("
        "torch.zeros(batch.mask.shape)), 'nothing'))\n"
    )
    monkeypatch.chdir(tmp_path)
    command = [
        "train", "bandit", "--preset", "starpo-grpo", "--out", "run", "advantage.estimator=zero",
        f"model={tiny}", "iterations=1", "evaluation.every=0", "rollout.max_tokens=8",
        "filter.kind=none", "loss.entropy_coef=0", "loss.kl=none",
    ]  # fmt: skip
    assert main(["--import", "my_estimator.py", *command]) == 0
    assert lines(tmp_path / "run")[0]["grad_norm"] == 0
    capsys.readouterr()
