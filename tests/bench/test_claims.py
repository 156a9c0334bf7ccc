"""Verdicts on claims, and the numbers of runs that they rest on, from results whose truth is known."""

import math

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.findings import joined
from ragen_bench.reproduction.reproduction_config import load_reproduction
from ragen_bench.reproduction.run_measures import Runs, collapsed_at, gained, happened, scalar_of
from ragen_bench.reproduction.success_table import matrix_grid
from ragen_bench.stats.mixed_effects import mixed_effects_difference
from results import (
    DOWN,
    PAPERS,
    SHRINKS,
    UP,
    judged,
    outcome,
    results_of,
    runs_of,
    sweep_of,
)


def test_a_claim_that_holds_is_supported_and_its_opposite_contradicted():
    what, results = results_of("table4", {"think": 0.8, "no-think": 0.4})
    verdicts = judge(what, Runs(sweep_of(what), results))
    assert [v.verdict for v in verdicts] == ["supported"] * 2 + ["contradicted"] * 2
    assert verdicts[0].paper == "+18.8 points"
    assert all(v.remedy == "" for v in verdicts)


def test_noise_decides_nothing_and_is_told_what_would():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=3, seed_sd=0.05)
    verdicts = judge(what, Runs(sweep_of(what), results))
    assert {v.verdict for v in verdicts} == {"undecided"}
    assert any("seeds to find the paper's 11.3 points" in v.remedy for v in verdicts)


def test_an_effect_below_half_of_the_papers_is_smaller():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=9, seed_sd=0.005)
    verdicts = judge(what, Runs(sweep_of(what), results))
    assert [v.paper for v in verdicts[:3]] == ["+18.8 points", "+11.3 points", "+0.8 points"]
    assert [v.verdict for v in verdicts[:2]] == ["smaller", "smaller"]
    assert all(v.p_holm <= 0.05 and not v.remedy for v in verdicts[:2])


@pytest.mark.parametrize(
    ("rate", "verdict"), [(0.5, "supported"), (0.3, "contradicted"), (0.46, "undecided")]
)
def test_success_is_shown_to_differ_by_less_than_five_points_or_not(rate, verdict):
    claim = "Adapters at tenfold learning rates solve as much as all weights"
    what, results = results_of("lora", {"lora": rate}, seeds=9, games=("Sokoban",))
    assert judged("lora", claim, Runs(sweep_of(what), results)).verdict == verdict


def test_an_effect_of_half_the_papers_size_is_seldom_called_smaller():
    what, results = results_of("table4", {"think": 0.5, "no-think": 0.5}, seeds=4)
    claims = [c for c in what.claims if c.text == "Thinking helps on Bandit"]
    what = what.model_copy(update={"claims": claims})
    half = 0.188 / 2
    wrong = 0
    for round_ in range(40):
        rng = np.random.default_rng(round_)
        changed = [
            r if r.task.seed is None
            else r.model_copy(update={"outcomes": {"policy": {
                test: outcome(rng, 0.5 + half * (r.task.cell == "think")) for test in r.task.suite.tasks}}})
            for r in results
        ]  # fmt: skip
        wrong += judge(what, Runs(sweep_of(what), changed))[0].verdict == "smaller"
    assert wrong <= 4  # of 40


def test_claims_without_runs_are_not_judged():
    what, _ = results_of("table2", {})
    verdicts = judge(what, Runs(sweep_of(what), []))
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
        ("figure8", "base", "Clip-higher peaks higher", "runs of clip-higher"),
        ("figure7", "all", "Keeping 25% makes collapse rarer", "runs of keep-25"),
    ],
)
def test_a_claim_that_was_not_run_tells_which_runs_are_missing(name, there, claim, needed):
    what, results = results_of(name, {}, seeds=2)
    runs = Runs(sweep_of(what), [r for r in results if r.task.cell == there])
    verdicts = judge(what, runs)
    found = next(v for v in verdicts if v.claim.startswith(claim))
    assert (found.verdict, found.remedy) == ("not run", needed)


def test_true_differences_of_nothing_are_seldom_called_one():
    """The family-wise rate of false verdicts over the claims of a table."""
    wrong = 0
    what, results = results_of("table2", {}, seeds=3)
    for round_ in range(30):
        rng = np.random.default_rng(round_)
        shuffled = [
            r if r.task.seed is None
            else r.model_copy(update={"outcomes": {"policy": {
                test: outcome(rng, 0.5) for test in r.task.suite.tasks}}})
            for r in results
        ]  # fmt: skip
        verdicts = judge(what, Runs(sweep_of(what), shuffled))
        wrong += any(v.verdict in ("supported", "contradicted") for v in verdicts)
    assert wrong <= 4  # of 30, with a probability of 98% where the rate is 5%


def with_curves(**curves):
    _, results = results_of("collapse", {}, games=PAPERS, seeds=1, curves=curves)
    return next(r for r in results if r.task.seed is not None)


def test_a_collapse_is_a_gain_on_validation_and_a_fall_to_half_of_the_best_for_good():
    assert collapsed_at(with_curves(**DOWN)) == 19
    assert collapsed_at(with_curves(**UP)) is None
    back = [0.2] + [0.5] * 9 + [0.0] * 10 + [0.5] * 10
    assert collapsed_at(with_curves(**{"validation/success": back})) is None
    never_gained = with_curves(**{"validation/success": [0.4] * 20 + [0.0] * 20})
    assert collapsed_at(never_gained) is None
    assert happened(never_gained, "collapse") is None
    assert happened(with_curves(success=[0.4] * 20 + [0.0] * 20), "collapse") is None
    assert [happened(with_curves(**c), "collapse") for c in (DOWN, UP)] == [True, False]


def test_a_gain_is_more_than_the_chance_of_few_levels():
    """64 levels: two standard errors of a difference are 17.7 points; 256: 8.8, so that ten decide."""

    def gains(end, levels):
        run = with_curves(**{"validation/success": [0.2, 0.25, end]})
        evaluation = run.task.train.evaluation.model_copy(update={"episodes": levels})
        train = run.task.train.model_copy(update={"evaluation": evaluation})
        return gained(run.model_copy(update={"task": run.task.model_copy(update={"train": train})}))

    assert [gains(end, 64) for end in (0.37, 0.38)] == [False, True]
    assert [gains(end, 256) for end in (0.29, 0.31)] == [False, True]


def test_a_policy_below_random_play_has_not_gained_before_it_is_above_it():
    """256 levels: two standard errors are 6.25 points."""

    def gains(end, random):
        run = with_curves(**{"validation/success": [0.32, 0.4, end]})
        outcome = run.outcomes["policy"]["Bandit"].model_copy(update={"random": random})
        evaluation = run.task.train.evaluation.model_copy(update={"episodes": 256})
        train = run.task.train.model_copy(update={"evaluation": evaluation})
        task = run.task.model_copy(update={"train": train, "game": "Bandit"})
        return gained(run.model_copy(update={"task": task, "outcomes": {"policy": {"Bandit": outcome}}}))

    assert [gains(0.5, random) for random in (None, 0.5, 0.3)] == [True, False, True]
    assert [gains(end, 0.5) for end in (0.56, 0.57)] == [False, True]


@pytest.mark.parametrize(
    ("high_until", "events"), [(8, (True, False)), (18, (False, True)), (39, (False, False))]
)
def test_the_deviation_falls_first_or_together_with_success(high_until, events):
    deviation = [1.0] * (high_until + 1) + [0.1] * (39 - high_until)
    run = with_curves(**DOWN, reward_std=deviation)
    both = ("deviation-first", "deviation-together")
    assert tuple(happened(run, event) for event in both) == events
    assert all(happened(with_curves(**UP, reward_std=deviation), event) is None for event in both)


def test_entropy_decays_steadily_or_wanders():
    steady = list(np.linspace(1.0, 0.2, 40))
    wandering = [1.0 + 0.5 * math.sin(i) for i in range(40)]
    for entropy, decays in ((steady, True), (wandering, False)):
        learns, falls = (with_curves(**c, entropy=entropy) for c in (UP, DOWN))
        assert happened(learns, "entropy-decays") is decays
        assert happened(falls, "entropy-wanders") is not decays
        assert happened(learns, "entropy-wanders") is happened(falls, "entropy-decays") is None


def test_the_steps_of_signs_are_those_of_the_runs_that_collapsed():
    def curves(task):
        run = DOWN if task.seed in (0, 1) else UP
        shrinks = [1.0] * (10 + (task.seed or 0)) + [0.1] * 30
        spike = [1.0] * 25 + [9.0] + [1.0] * 14
        return run | {"reward_std": shrinks[:40], "grad_norm": spike, "return": [1.0] * 40}

    grid = matrix_grid(load_reproduction("figure6"), pd.DataFrame(), runs_of("figure6", curves, PAPERS))
    ours = {row[0]: row[2] for row in grid.rows}
    assert ours["gradient norm has a spike"] == "25 (in 2 of 6 runs)"
    assert ours["return turns down"] == "39 (in 2 of 6 runs)"
    assert 9 <= float(ours["in-group deviation is low"].split()[0]) <= 13
    nothing = matrix_grid(load_reproduction("figure6"), pd.DataFrame(), runs_of("figure6", lambda _: UP))
    assert {text for row in nothing.rows for text in row[2::2]} == {""}


def test_a_spike_is_an_iteration_far_above_those_before():
    def spiked(norms, **more):
        return happened(with_curves(**DOWN, grad_norm=norms, **more), "gradient-spike")

    for height, wanted in ((4.9, False), (5.1, True)):
        assert spiked([1.0] * 20 + [height] + [1.0] * 19) is wanted
    assert spiked([0.1] * 20 + [0.9] + [0.1] * 19) is False  # is not even clipped
    # Iterations of equal returns, after which the next ordinary one is no spike.
    equal = {"reward_std": [1.0] * 10 + [0.0] * 10 + [1.0] * 20}
    assert spiked([1.5] * 10 + [0.001] * 10 + [1.5] * 20, **equal) is False
    assert happened(with_curves(**UP, grad_norm=[1.0] * 40), "gradient-spike") is None


def test_numbers_of_a_run_are_those_of_its_curves():
    run = with_curves(
        **{"success": [0.0] * 10 + [1.0] * 10, "thought_characters": [100.0] * 10 + [50.0] * 10,
           "seconds/total": [3.0] * 20, "seconds/evaluation": [1.0] * 20}
    )  # fmt: skip
    assert scalar_of(run, "thought") == pytest.approx(np.log(0.5))
    assert scalar_of(run, "seconds") == pytest.approx(2.0)
    falls, stays = with_curves(**DOWN), with_curves(**UP)
    assert scalar_of(falls, "peak") == scalar_of(stays, "peak") == 0.5
    assert (scalar_of(falls, "fall"), scalar_of(stays, "fall")) == (19, 39)
    assert math.isnan(scalar_of(with_curves(**{"validation/success": [0.5] * 9}), "fall"))
    templates = with_curves(template_share=[0.1] * 5 + [0.9] * 10 + [0.4] * 5)
    assert scalar_of(templates, "template") == pytest.approx(0.3)
    thoughts = with_curves(**{"claims/move_1": [0.5] * 5 + [0.7] * 4 + [0.9]})
    assert scalar_of(thoughts, "first-move") == pytest.approx(0.74)
    assert math.isnan(scalar_of(templates, "first-move"))
    replies = with_curves(reply_tokens=[20.0] * 5 + [30.0] * 5)
    assert scalar_of(replies, "reply") == pytest.approx(np.log(1.5))


THOUGHT = "information/turns/thought/"


def test_information_that_falls_before_success_is_seen():
    early = {THOUGHT + "mutual_information": [3.0] * 8 + [0.1] * 32}
    late = {THOUGHT + "mutual_information": [3.0] * 39 + [0.1]}
    seen = [
        happened(with_curves(**success, **told), "information-first")
        for success, told in ((DOWN, early), (DOWN, late), (UP, early), (DOWN, {}))
    ]
    assert seen == [True, False, None, None]
    for valid, wanted in ((0.99, True), (0.5, False)):
        run = with_curves(**DOWN, **early, valid=[valid] * 40)
        assert happened(run, "valid-template") is wanted


def test_information_that_was_never_there_does_not_fall():
    told = {THOUGHT + "mutual_information": [-0.01] * 8 + [-0.5] * 32}
    run = with_curves(**DOWN, valid=[1.0] * 40, **told)
    assert happened(run, "information-first") is happened(run, "valid-template") is None


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
    np.testing.assert_array_equal(joined(equal), np.concatenate([np.eye(4), np.ones((4, 4))], axis=1))


def test_probes_with_fewer_buckets_are_left_out():
    def curves(task):
        rising = {f"gradient/bucket{k}/{name}": [float(k), float(k)] for k in range(1, 7)
                  for name in ("reward_std", "policy")}  # fmt: skip
        return rising | {f"gradient/bucket6/{name}": [None, 6.0] for name in ("reward_std", "policy")}

    result = runs_of("ragen2-gradient", curves).results[-1]
    assert scalar_of(result, "policy-rise") == pytest.approx(1.0)


@pytest.mark.parametrize(("tokens", "verdict"), [([50.0] * 12, "smaller"), ([50.0, 20.0], "not run")])
def test_what_does_not_change_is_not_said_to_shrink(tokens, verdict):
    curves = {"success": [0.5] * len(tokens), "reply_tokens": tokens}
    what, results = results_of("figure11", {}, seeds=9, curves=curves)
    found = judge(what, Runs(sweep_of(what), results))
    assert {v.verdict for v in found if v.claim.startswith("Replies get shorter")} == {verdict}


def test_few_runs_that_end_alike_are_not_enough_evidence():
    """Deviations that reach 0 and peaks at 100% or 0% are no facts about the method."""
    for seeds, verdict in ((3, "undecided"), (6, "supported")):
        shrinks = runs_of("ragen2-filters", lambda _: {"reward_std": [1.0] * 5 + [0.0] * 5}, seeds=seeds)
        peaks = runs_of(
            "figure5",
            lambda t: {"validation/success": [float(t.cell == "starpo-ppo")] * 9},
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
    curves = {"validation/success": [0.0] * 9}
    what, results = results_of("figure5", {}, games=PAPERS, seeds=4, curves=curves)
    verdicts = {v.claim: v.verdict for v in judge(what, Runs(sweep_of(what), results))}
    assert verdicts["A critic's peak on Bandit is higher"] == "undecided"


def test_runs_that_all_collapse_are_not_enough_evidence_until_there_are_many():
    for seeds, verdict in ((3, "undecided"), (12, "supported")):
        what, results = results_of("collapse", {}, games=PAPERS, seeds=seeds, curves=DOWN)
        verdicts = judge(what, Runs(sweep_of(what), results))
        collapse = next(
            v for v in verdicts if v.claim.endswith("advantages improves, then collapses on Bandit")
        )
        assert collapse.verdict == verdict
        assert collapse.ours.startswith(f"{seeds} of {seeds} runs")


@pytest.mark.parametrize(
    ("fall", "verdict"),
    [(("all",), "supported"), (("all", "keep-25"), "undecided"), ((), "undecided")],
)
def test_a_filter_avoids_collapse_only_where_there_is_some_without_it(fall, verdict):
    def curves(task):
        return DOWN if task.cell in fall else UP

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
        return {"reply_tokens": [50.0] * 5 + [ends + noise * (ends == 50) + 0.1 * (task.seed or 0)] * 5}

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
    what, results = results_of("collapse", {}, games=PAPERS, seeds=10, curves=DOWN)
    first = what.claims[0]

    def adjusted(kept):
        verdicts = judge(what, Runs(sweep_of(what), kept))
        return next(v.p_holm for v in verdicts if v.claim == first.text)

    alone = [r for r in results if r.task.game == first.train and r.task.cell == first.cell]
    assert adjusted(alone) == pytest.approx(2.0**-9 * len(what.claims))
    assert adjusted(results) <= adjusted(alone)
