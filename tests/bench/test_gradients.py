"""The gradient laboratory: known truths, closed forms, and TRL's loss on the same batches."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from gradients.batches import batches, moments  # noqa: E402
from gradients.closed_forms import centring, deviation_factor, filtered_gamble  # noqa: E402
from gradients.problem import answers, gamble  # noqa: E402
from gradients.report import _difficulty_rows, _method_row  # noqa: E402
from gradients.trainers import Method  # noqa: E402

NORM = "seq-mean-token-sum-norm"
PAGE = Path(__file__).parents[2] / "docs/gradients.md"


def test_the_true_gradient_is_that_of_finite_differences():
    problem, step = answers([0.7]), 1e-6

    def objective(logit):
        right = torch.sigmoid(torch.tensor(logit, dtype=torch.float64))
        return float(right)

    logit = float(torch.logit(torch.tensor(0.7, dtype=torch.float64)))
    slope = (objective(logit + step) - objective(logit - step)) / (2 * step)
    assert problem.gradient.tolist() == pytest.approx([slope, 0, 0], abs=1e-8)


@pytest.mark.parametrize("problem", [answers([0.9, 0.5]), gamble()])
def test_all_batches_are_enumerated(problem):
    assert sum(chance for chance, _ in batches(problem, 3)) == pytest.approx(1)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("chance", [0.1, 0.6])
def test_rloo_is_unbiased_and_the_groups_mean_shrinks_it(size, chance):
    problem = answers([chance], long=0.3)
    for estimator, factor in (("rloo", 1.0), ("dr-grpo", centring(size))):
        found = 4 * moments(problem, size, Method(estimator, NORM)).mean
        assert found.tolist() == pytest.approx((factor * problem.gradient).tolist(), abs=1e-9)


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize("chance", [0.02, 0.3, 0.5])
def test_dividing_by_the_deviation_weighs_prompts_as_the_closed_form_says(size, chance):
    problem = answers([chance], tokens=(2, 2))
    found = 2 * moments(problem, size, Method("grpo", NORM, longest=2)).mean
    assert float(found[0] / problem.gradient[0]) == pytest.approx(deviation_factor(chance, size))


def test_in_large_groups_the_weight_is_one_over_the_deviation():
    assert deviation_factor(0.3, 400) == pytest.approx((0.3 * 0.7) ** -0.5, rel=0.01)


def test_the_mean_within_replies_pulls_on_lengths_and_a_constant_does_not():
    problem = answers([0.6])
    _, after_right, after_wrong = moments(problem, 4, Method("grpo", "seq-mean-token-mean")).mean
    assert float(after_right) < -1e-3
    assert float(after_wrong) > 1e-3
    constant = moments(problem, 4, Method("grpo", NORM)).mean
    assert constant[1:].abs().max() < 1e-12


@pytest.mark.parametrize("bandit", [(0.15, 1.0, 0.1, 0.5), (0.15, 1.0, 0.25, 0.2), (0.2, 2.0, 0.05, 0.8)])
def test_the_filter_seeks_risk_as_the_closed_form_says(bandit):
    sure, jackpot, chance, take = bandit
    problem = gamble(sure, jackpot, chance, take, prompts=2)
    plain, filtered = filtered_gamble(*bandit)
    for kind, expected in (("none", plain), ("std", filtered)):
        method = Method("dr-grpo", filter=kind, ratio=0.5, longest=1)
        found = float(moments(problem, 2, method).mean.sum())
        assert found == pytest.approx(expected)
    assert filtered > 2 * plain or take > 0.5  # then most kept groups hold no sure arm to compare with


def test_with_a_third_of_the_groups_kept_the_worse_arm_is_sought():
    problem = gamble(prompts=3)
    for kind, sign in (("none", -1), ("std", 1)):
        method = Method("rloo", filter=kind, ratio=1 / 3, longest=1)
        assert float(moments(problem, 3, method).mean.sum()) * sign > 0


@pytest.mark.parametrize(
    ("loss_type", "scale", "method"),
    [
        ("grpo", "group", Method("grpo", "seq-mean-token-mean")),
        ("dapo", "group", Method("grpo")),
        ("bnpo", "group", Method("grpo")),
        ("dr_grpo", "none", Method("dr-grpo", NORM)),
    ],
)
def test_the_loss_of_trl_gives_the_same_gradients_batch_by_batch(loss_type, scale, method):
    pytest.importorskip("trl")
    from gradients.trl_loss import TrlLoss

    theirs = TrlLoss(loss_type, scale)
    for _, batch in list(batches(answers([0.9, 0.5]), 3))[::7]:
        # They add 1e-4 to the deviation.
        assert torch.allclose(theirs(batch), method(batch), atol=2e-4)


def test_the_page_shows_what_is_computed():
    text = PAGE.read_text()
    assert "\n".join(_difficulty_rows()) in text
    problem = answers([0.9, 0.5])
    for estimator in ("rloo", "grpo"):
        row = _method_row(problem, estimator, NORM, moments(problem, 4, Method(estimator, NORM)))
        assert row in text
