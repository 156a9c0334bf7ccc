"""Verdicts on claims, and the numbers of runs that they rest on, from results whose truth is known."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.findings import joined
from ragen_bench.reproduction.measurements import Runs
from ragen_bench.reproduction.run_measures import collapsed_at, happened, scalar_of
from ragen_bench.stats.mixed_effects import mixed_effects_difference
from results import PAPERS, SHRINKS, judged, outcome, results_of, runs_of


def test_a_claim_that_holds_is_supported_and_its_opposite_contradicted():
    what, results = results_of("table4", {"think": 0.8, "no-think": 0.4})
    verdicts = judge(what, Runs(what.load_sweep(), results))
    assert [v.verdict for v in verdicts] == ["supported"] * 3 + ["contradicted"]
    assert verdicts[0].paper == "+18.8 points"
    assert all(v.remedy == "" for v in verdicts)


def test_noise_decides_nothing_and_is_told_what_would():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=3, seed_sd=0.05)
    verdicts = judge(what, Runs(what.load_sweep(), results))
    assert {v.verdict for v in verdicts} == {"undecided"}
    assert any("seeds to find the paper's 11.3 points" in v.remedy for v in verdicts)


def test_an_effect_below_half_of_the_papers_is_smaller():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=9, seed_sd=0.005)
    verdicts = judge(what, Runs(what.load_sweep(), results))
    assert [v.paper for v in verdicts[:3]] == ["+18.8 points", "+11.3 points", "+0.8 points"]
    assert [v.verdict for v in verdicts[:3]] == ["smaller", "smaller", "undecided"]
    assert all(v.p_holm <= 0.05 and not v.remedy for v in verdicts[:2])


def test_an_effect_of_half_the_papers_size_is_seldom_called_smaller():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=4)
    claims = [c for c in what.claims if c.text == "Thinking helps on Bandit"]
    what = what.model_copy(update={"claims": claims})
    half = 0.188 / 2
    wrong = 0
    for round_ in range(100):
        rng = np.random.default_rng(round_)
        changed = [
            r if r.task.seed is None
            else r.model_copy(update={"outcomes": {"policy": {
                test: outcome(rng, 0.5 + half * (r.task.cell == "think")) for test in r.task.suite.tasks}}})
            for r in results
        ]  # fmt: skip
        wrong += judge(what, Runs(what.load_sweep(), changed))[0].verdict == "smaller"
    assert wrong <= 8


def test_claims_without_runs_are_not_judged():
    what, _ = results_of("table2", {})
    verdicts = judge(what, Runs(what.load_sweep(), []))
    assert {v.verdict for v in verdicts} == {"not run"}
    assert [v.remedy for v in verdicts] == [
        "runs of 4 and 16",
        "runs of 4 and 1",
        "runs of 4 and 32",
    ]


@pytest.mark.parametrize(
    ("name", "there", "claim", "needed"),
    [
        ("table2", "4", "4 responses a prompt generalise better to FrozenLake", "runs of 1"),
        ("figure8", "base", "With one optimizer step an iteration", "runs of one-step"),
        ("figure7", "grpo-all", "Group-relative: keeping 25% makes", "runs of grpo-keep-25"),
    ],
)
def test_a_claim_that_was_not_run_tells_which_runs_are_missing(name, there, claim, needed):
    what, results = results_of(name, {}, seeds=2)
    runs = Runs(what.load_sweep(), [r for r in results if r.task.cell == there])
    verdicts = judge(what, runs)
    found = next(v for v in verdicts if v.claim.startswith(claim))
    assert (found.verdict, found.remedy) == ("not run", needed)


def test_true_differences_of_nothing_are_seldom_called_one():
    """The family-wise rate of false verdicts over the claims of a table."""
    wrong = 0
    what, results = results_of("table2", {}, seeds=3)
    for round_ in range(60):
        rng = np.random.default_rng(round_)
        shuffled = [
            r if r.task.seed is None
            else r.model_copy(update={"outcomes": {"policy": {
                test: outcome(rng, 0.5) for test in r.task.suite.tasks}}})
            for r in results
        ]  # fmt: skip
        verdicts = judge(what, Runs(what.load_sweep(), shuffled))
        wrong += any(v.verdict in ("supported", "contradicted") for v in verdicts)
    assert wrong / 60 <= 0.12


def with_curves(**curves):
    _, results = results_of("figure5", {}, games=PAPERS, seeds=1, curves=curves)
    return next(r for r in results if r.task.seed is not None)


def test_a_collapse_is_a_fall_to_half_of_the_best_for_good():
    fallen = with_curves(success=[0.4] * 20 + [0.0] * 20)
    assert 20 < collapsed_at(fallen) <= 25
    assert collapsed_at(with_curves(success=[0.4] * 20 + [0.0] * 10 + [0.4] * 10)) is None
    assert collapsed_at(with_curves(success=[0.1, 0.2, 0.3] * 8)) is None
    assert collapsed_at(with_curves(success=[0.01] * 9 + [0.0] * 9)) is None


def test_an_early_sign_comes_before_the_collapse():
    fall = [0.4] * 20 + [0.0] * 20
    assert (
        happened(with_curves(success=fall, reward_std=[1.0] * 8 + [0.1] * 32), "early-sign") is True
    )
    assert happened(with_curves(success=fall, reward_std=[1.0] * 39 + [0.1]), "early-sign") is False
    assert happened(with_curves(success=[0.4] * 40, reward_std=[0.1] * 40), "early-sign") is None


def test_a_sign_in_the_last_window_in_which_success_is_up_is_early():
    fall = [0.4] * 20 + [0.0] * 20  # means over five: up until iteration 22
    assert collapsed_at(with_curves(success=fall)) == 22
    for last_high, wanted in (
        (19, True),
        (20, False),
    ):  # deviation: half after three low iterations
        deviation = [1.0] * last_high + [0.0] * (40 - last_high)
        run = with_curves(success=fall, reward_std=deviation, entropy=deviation)
        assert happened(run, "early-sign") is happened(run, "entropy-first") is wanted


def test_a_spike_is_an_iteration_far_above_those_before():
    fall = [0.4] * 20 + [0.0] * 20
    for height, wanted in ((4.9, False), (5.1, True)):
        run = with_curves(success=fall, grad_norm=[1.0] * 20 + [height] + [1.0] * 19)
        assert happened(run, "gradient-spike") is wanted
    assert happened(with_curves(success=[0.4] * 40, grad_norm=[1.0] * 40), "gradient-spike") is None
    assert happened(with_curves(success=[0.4, 0.0]), "gradient-spike") is None


def test_numbers_of_a_run_are_those_of_its_curves():
    run = with_curves(
        **{"success": [0.0] * 10 + [1.0] * 10, "thought_characters": [100.0] * 10 + [50.0] * 10,
           "seconds/total": [3.0] * 20, "seconds/evaluation": [1.0] * 20, "clip_fraction": [0.0] * 20}
    )  # fmt: skip
    assert scalar_of(run, "peak") == scalar_of(run, "last") == 1
    assert scalar_of(run, "thought") == pytest.approx(np.log(0.5))
    assert scalar_of(run, "seconds") == pytest.approx(2.0)
    assert scalar_of(run, "clipped") == 0
    templates = with_curves(template_share=[0.1] * 5 + [0.9] * 10 + [0.4] * 5)
    assert scalar_of(templates, "template") == pytest.approx(0.3)
    replies = with_curves(reply_tokens=[20.0] * 5 + [30.0] * 5)
    assert scalar_of(replies, "reply") == pytest.approx(np.log(1.5))


THOUGHT = "information/first/thought/"


def test_information_that_falls_before_success_is_seen():
    fall = [0.4] * 20 + [0.0] * 20
    early = {"success": fall, THOUGHT + "mutual_information": [3.0] * 8 + [0.1] * 32}
    late = {"success": fall, THOUGHT + "mutual_information": [3.0] * 39 + [0.1]}
    steady = {"success": [0.4] * 40, THOUGHT + "mutual_information": [0.1] * 40}
    seen = [happened(with_curves(**c), "information-first") for c in (early, late, steady)]
    assert seen == [True, False, None]
    assert happened(with_curves(success=fall), "information-first") is None
    for valid, wanted in ((0.99, True), (0.5, False)):
        run = with_curves(**early, valid=[valid] * 40)
        assert happened(run, "valid-template") is wanted


def test_information_that_was_never_there_does_not_fall():
    told = {THOUGHT + "mutual_information": [-0.01] * 8 + [-0.5] * 32}
    run = with_curves(success=[0.4] * 20 + [0.0] * 20, valid=[1.0] * 40, **told)
    assert happened(run, "information-first") is happened(run, "valid-template") is None


def test_information_is_smoothed_over_as_many_iterations_as_success():
    every_other = [3.0, None] * 5 + [0.1, None] * 15
    run = with_curves(
        **{"success": [0.4] * 14 + [0.0] * 26, THOUGHT + "mutual_information": every_other}
    )
    assert happened(run, "information-first") is True  # after 3 of its values, not after 5


def test_correlations_are_over_the_iterations_that_have_both():
    rng = np.random.default_rng(0)
    success, told, entropy = rng.random(40), rng.random(40), rng.random(40)
    run = with_curves(
        **{"success": success.tolist(),
           THOUGHT + "mutual_information": [v if i % 2 else None for i, v in enumerate(told.tolist())],
           THOUGHT + "conditional_entropy": entropy.tolist()}
    )  # fmt: skip

    def ranks_agree(a, b):
        return np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1]

    with_told = ranks_agree(told[1::2], success[1::2])
    with_entropy = ranks_agree(entropy, success)
    assert scalar_of(run, "information-success") == pytest.approx(with_told)
    assert scalar_of(run, "entropy-success") == pytest.approx(with_entropy)
    assert scalar_of(run, "information-over-entropy") == pytest.approx(with_told - with_entropy)
    assert np.isnan(scalar_of(with_curves(success=[0.5] * 40), "information-success"))


def test_gradients_rise_where_they_grow_with_the_deviation():
    probes = {"reward_std": [0, 1, 2, 3, 4, 5], "policy": [0, 2, 3, 5, 8, 9],
              "entropy": [6, 5, 4, 3, 2, 1], "divergence": [0, 0, 0, 0, 0, 1e-6]}  # fmt: skip
    run = with_curves(
        success=[0.5] * 3,
        **{f"gradient/bucket{k}/{name}": [float(values[k - 1]), None, float(values[k - 1])]
           for name, values in probes.items() for k in range(1, 7)},
    )  # fmt: skip
    assert scalar_of(run, "policy-rise") == pytest.approx(1)
    assert scalar_of(run, "entropy-rise") == pytest.approx(-1)
    assert scalar_of(run, "policy-over-entropy") == pytest.approx(2)
    assert np.isnan(scalar_of(run, "divergence-rise"))  # rounding is no gradient


def test_a_claim_over_several_games_is_about_the_mean_of_games_as_the_papers():
    """Levels of a game that repeat count as one, so games have different numbers of them."""
    rng = np.random.default_rng(0)
    sides = [[(rng.random((4, n)) < rate).astype(float) for n, rate in games]
             for games in (((180, 0.8), (256, 0.3)), ((180, 0.4), (256, 0.3)))]  # fmt: skip
    first, second = (joined(side) for side in sides)
    means = [[game.mean() for game in side] for side in sides]
    np.testing.assert_allclose([first.mean(), second.mean()], np.mean(means, axis=1))
    error = mixed_effects_difference(first, second).variance.total ** 0.5
    parts = [mixed_effects_difference(a, b).variance.total for a, b in zip(*sides, strict=True)]
    assert error >= 0.9 * math.sqrt(sum(parts)) / 2
    equal = [np.eye(4), np.ones((5, 4))]
    np.testing.assert_array_equal(
        joined(equal), np.concatenate([np.eye(4), np.ones((4, 4))], axis=1)
    )


def test_probes_with_fewer_buckets_are_left_out():
    def curves(task):
        rising = {f"gradient/bucket{k}/{name}": [float(k), float(k)] for k in range(1, 7)
                  for name in ("reward_std", "policy")}  # fmt: skip
        return rising | {
            f"gradient/bucket6/{name}": [None, 6.0] for name in ("reward_std", "policy")
        }

    result = runs_of("ragen2-gradient", curves).results[-1]
    assert scalar_of(result, "policy-rise") == pytest.approx(1.0)


def test_facts_without_spread_are_decided():
    curves = {"success": [0.5] * 9, "clip_fraction": [0.0] * 9}
    what, results = results_of("figure8", {}, games=PAPERS, seeds=2, curves=curves)
    verdicts = {v.claim: v.verdict for v in judge(what, Runs(what.load_sweep(), results))}
    assert verdicts["With one optimizer step an iteration something is clipped"] == "contradicted"


@pytest.mark.parametrize(
    ("tokens", "verdict"), [([50.0] * 12, "smaller"), ([50.0, 20.0], "not run")]
)
def test_what_does_not_change_is_not_said_to_shrink(tokens, verdict):
    curves = {"success": [0.5] * len(tokens), "reply_tokens": tokens}
    what, results = results_of("figure11", {}, seeds=9, curves=curves)
    found = judge(what, Runs(what.load_sweep(), results))
    assert {v.verdict for v in found if v.claim.startswith("Replies get shorter")} == {verdict}


def test_few_runs_that_end_alike_are_not_enough_evidence():
    """Deviations that reach 0 and peaks at 100% or 0% are no facts about the method."""
    for seeds, verdict in ((3, "undecided"), (6, "supported")):
        shrinks = runs_of(
            "ragen2-filters", lambda _: {"reward_std": [1.0] * 5 + [0.0] * 5}, seeds=seeds
        )
        peaks = runs_of(
            "figure5",
            lambda t: {"success": [float(t.cell == "starpo-ppo")] * 9},
            PAPERS,
            seeds=seeds,
        )
        found = [
            judged("ragen2-filters", SHRINKS, shrinks),
            judged("figure5", "A critic's peak on Bandit is higher", peaks),
        ]
        assert [f.verdict for f in found] == [verdict] * 2
        assert [f.p_holm for f in found] == [2.0 ** (1 - seeds), 2 / math.comb(2 * seeds, seeds)]
        assert all(f.seeds_needed == (7, 5)[i] for i, f in enumerate(found) if seeds == 3)


def test_equal_facts_are_no_difference():
    curves = {"success": [0.0] * 9}
    what, results = results_of("figure5", {}, games=PAPERS, seeds=4, curves=curves)
    verdicts = {v.claim: v.verdict for v in judge(what, Runs(what.load_sweep(), results))}
    assert verdicts["A critic's peak on Bandit is higher"] == "undecided"


def test_runs_that_all_collapse_are_not_enough_evidence_until_there_are_many():
    for seeds, verdict in ((3, "undecided"), (12, "supported")):
        curves = {"success": [0.5] * 20 + [0.0] * 20}
        what, results = results_of("figure5", {}, games=PAPERS, seeds=seeds, curves=curves)
        verdicts = judge(what, Runs(what.load_sweep(), results))
        collapse = next(v for v in verdicts if v.claim.endswith("advantages collapses on Bandit"))
        assert collapse.verdict == verdict
        assert collapse.ours.startswith(f"{seeds} of {seeds} runs")


@pytest.mark.parametrize(
    ("fall", "verdict"),
    [(("all",), "supported"), (("all", "keep-25"), "undecided"), ((), "undecided")],
)
def test_a_filter_avoids_collapse_only_where_there_is_some_without_it(fall, verdict):
    def curves(task):
        return {"success": [0.4] * 20 + [0.0 if task.cell in fall else 0.4] * 20}

    found = judged("figure7", "Keeping 25% makes collapse rarer", runs_of("figure7", curves))
    assert found.verdict == verdict
    assert found.ours.startswith(f"{6 * ('all' in fall)} of 6 runs against")


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [(50, "smaller"), (10, "supported"), (60, "contradicted"), (40, "supported")],
)
def test_a_change_far_below_the_papers_is_smaller(ends, verdict):
    """The paper's replies lose 73% on Bandit; half of that is 36.5%."""

    def curves(task):
        noise = 2.5 * ((task.seed or 0) - 2.5)  # between seeds, about 50 tokens
        return {
            "reply_tokens": [50.0] * 5 + [ends + noise * (ends == 50) + 0.1 * (task.seed or 0)] * 5
        }

    found = judged("figure11", "Replies get shorter on Bandit", runs_of("figure11", curves))
    assert (found.verdict, found.paper) == (verdict, "-73% (thought)")


@pytest.mark.parametrize(
    ("share", "iterations", "verdict"),
    [(0.0, 400, "supported"), (1.0, 400, "contradicted"), (0.0, 8, "undecided")],
)
def test_a_correlation_is_shown_to_be_about_zero_or_not(share, iterations, verdict):
    def curves(task):
        rng = np.random.default_rng(task.seed or 0)
        success, noise = rng.random((2, iterations))
        entropy = share * success + (1 - share) * noise
        return {"success": success.tolist(), THOUGHT + "conditional_entropy": entropy.tolist()}

    claim = "RAGEN-2: entropy does not go with success"
    found = judged("ragen2-information", claim, runs_of("ragen2-information", curves))
    assert found.verdict == verdict


def test_running_more_claims_cannot_undo_a_verdict():
    curves = {"success": [0.5] * 20 + [0.0] * 20}
    what, results = results_of("figure5", {}, games=PAPERS, seeds=10, curves=curves)
    first = what.claims[0]

    def adjusted(kept):
        verdicts = judge(what, Runs(what.load_sweep(), kept))
        return next(v.p_holm for v in verdicts if v.claim == first.text)

    alone = [r for r in results if r.task.game == first.train and r.task.cell == first.cell]
    assert adjusted(alone) == pytest.approx(2.0**-9 * len(what.claims))
    assert adjusted(results) <= adjusted(alone)
