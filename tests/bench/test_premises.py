"""What must hold in the runs of a claim before a verdict is given: a made-up sweep for each premise."""

import numpy as np
import pytest

pytest.importorskip("torch")

from ragen_bench.reproduction.claims import judge, over_all
from ragen_bench.reproduction.reproduction_config import load_reproduction
from ragen_bench.reproduction.run_measures import Runs
from results import DOWN, PAPERS, UP, outcome, results_of, sweep_of

INFORMATION = "information/turns/thought/mutual_information"


def verdict_on(name, text, results, **changes):
    """The verdict on a claim as it is filed, but for some fields."""
    what = load_reproduction(name)
    claim = next(claim for claim in what.claims if claim.text == text)
    one = what.model_copy(update={"claims": [claim.model_copy(update=changes)]})
    (verdict,) = judge(one, Runs(sweep_of(what), results))
    return verdict


def refused(verdict):
    assert verdict.verdict == "cannot tell"
    assert np.isnan(verdict.p_holm)
    assert not verdict.remedy
    return verdict.premise


FRESH = "Fresh rollouts beat Online-10 on Sokoban, at equal updates"
RATES = {"1": 0.7, "10": 0.4}
SLIP = "RAGEN-2: top-p of 0.9 ends better than no filter where the ice never slips"


def test_where_all_premises_hold_a_verdict_is_given():
    _, results = results_of("figure10", RATES)
    verdict = verdict_on("figure10", FRESH, results)
    assert (verdict.verdict, verdict.premise) == ("supported", "")
    assert verdict.claim.startswith(f"{FRESH}, from a model trained on demonstrations")
    assert verdict.gain == verdict.ours  # both began as the same model


def test_the_difference_on_validation_levels_is_told():
    _, results = results_of("figure10", RATES)
    assert verdict_on("figure10", FRESH, results).validation == ""
    ends = {"1": 0.6, "10": 0.45}
    validated = [
        result.model_copy(
            update={"iterations": [0, 1], "curves": {"validation/success": [0.1, ends[result.task.cell]]}}
        )
        if result.task.cell in ends and result.task.seed is not None
        else result
        for result in results
    ]
    assert verdict_on("figure10", FRESH, validated).validation == "+15.0 points"


def without(result, part):
    """The result of a run without a part of the paper's setting."""
    train = result.task.train
    change = {
        "turns": {"env_kwargs": {**train.env_kwargs, "max_turns": 1}},
        "divergence": {"loss": train.loss.model_copy(update={"kl": "none"})},
        "pretrained": {},  # no run of the sweep has one
    }[part]
    task = result.task.model_copy(update={"train": train.model_copy(update=change)})
    return result.model_copy(update={"task": task})


@pytest.mark.parametrize(
    ("part", "text"),
    [("turns", "fewer than the paper's five turns"), ("pretrained", "from demonstrations"),
     ("divergence", "no KL penalty")],
)  # fmt: skip
def test_a_part_of_the_papers_setting_is_there_or_named(part, text):
    _, results = results_of("ragen2-slip", {"top-p-0": 0.7, "none-0": 0.4})
    results = [without(result, part) for result in results]
    assert text in refused(verdict_on("ragen2-slip", SLIP, results, needs=[part], differs={}))
    named = verdict_on("ragen2-slip", SLIP, results, needs=[part], differs={part: "without it"})
    assert named.verdict == "supported"
    assert named.claim == f"{SLIP}, without it"


@pytest.mark.parametrize(("part", "text"), [("critic", "no critic"), ("filter", "no filter")])
def test_critic_and_filter_are_those_of_the_cells(part, text):
    _, results = results_of("figure7", {"grpo-keep-25": 0.8, "grpo-all": 0.5})
    claim = "Group-relative: keeping 25% still helps, modestly"
    verdict = verdict_on("figure7", claim, results, needs=[part], supposes=None)
    assert text in refused(verdict)


def test_room_for_half_of_the_papers_effect_is_left():
    claim = "Thinking helps on Bandit"  # by 18.8 points in the paper
    for rate, enough in ((0.95, False), (0.8, True)):
        _, results = results_of("table4", {"think": 0.98, "no-think": rate})
        verdict = verdict_on("table4", claim, results, needs=[])
        if enough:
            assert verdict.verdict == "supported"
        else:
            assert "less than half of the paper's 18.8" in refused(verdict)


def test_some_cell_is_shown_to_solve_more_than_random_play():
    _, results = results_of("table2", {"4": 0.08, "1": 0.02})  # where random play has 7%
    claim = "4 responses a prompt generalise better to FrozenLake than 1"
    premise = refused(verdict_on("table2", claim, results, supposes=None))
    assert premise.startswith("on FrozenLake no cell is shown to solve more than random play")


def test_the_baseline_has_learned():
    _, results = results_of("figure10", {"1": 0.2, "10": 0.05})  # the initial model has 20%
    assert "is not shown to learn" in refused(verdict_on("figure10", FRESH, results))


def test_a_baseline_that_is_not_above_random_play_has_not_learned():
    _, results = results_of("figure10", {"1": 0.3, "10": 0.6})  # the initial model has 20%

    def lucky(result):
        tests = {t: outcome(np.random.default_rng(1), 0.4) for t in result.task.suite.tasks}
        return result.model_copy(update={"outcomes": {**result.outcomes, "random": tests}})

    results = [lucky(r) if r.task.seed is None else r for r in results]
    verdict = verdict_on("figure10", FRESH, results)
    assert "no more than random play (4" in refused(verdict)


@pytest.mark.parametrize(
    ("curves", "text"),
    [({"success": [0.5] * 20 + [0.0] * 20}, "all was not validated"),
     (UP, "all gained and then collapsed on validation in 0 of 6 runs"),
     ({"validation/success": [0.5] * 20 + [0.0] * 20}, "collapsed on validation in 0 of 6 runs")],
)  # fmt: skip
def test_the_baseline_has_gained_and_collapsed_on_validation(curves, text):
    claim, more = "Keeping 25% ends better than keeping all, as published", {"needs": []}
    for seen in (curves, DOWN):
        _, results = results_of("figure7", {"keep-25": 0.7, "all": 0.3}, curves=seen)
        verdict = verdict_on("figure7", claim, results, **more)
        if seen is DOWN:
            assert verdict.verdict == "supported"
        else:
            assert text in refused(verdict)


def test_what_happens_in_training_was_validated_and_something_was_gained():
    claim = "StarPO with a critic improves, then collapses on Bandit"
    for curves, text in (
        ({"success": [0.5] * 40}, "not validated"),
        ({"validation/success": [0.3] * 40}, "no run of starpo-ppo gained on validation"),
    ):
        _, results = results_of("collapse", {}, games=PAPERS, curves=curves)
        assert text in refused(verdict_on("collapse", claim, results, needs=[]))


@pytest.mark.parametrize(("share", "iterations", "verdict"), [
    (DOWN, 60, "supported"), (UP, 60, "cannot tell"), (UP, 200, "contradicted"),
])  # fmt: skip
def test_a_collapse_that_did_not_come_had_the_papers_time_to_come(share, iterations, verdict):
    _, results = results_of("collapse", {}, games=PAPERS, curves=share)
    results = [
        r.model_copy(update={"task": r.task.model_copy(update={"train": r.task.train.model_copy(
            update={"iterations": iterations}
        )})}) for r in results
    ]  # fmt: skip
    claim = "StarPO with a critic improves, then collapses on Bandit"
    given = verdict_on("collapse", claim, results, needs=[], changed=0)
    assert given.verdict == verdict
    if verdict == "cannot tell":
        assert refused(given) == "starpo-ppo collapsed in 0 of 6 runs of 60 iterations; the paper's have 200"


def test_a_gap_that_was_there_before_training_is_no_effect_of_it():
    _, results = results_of("table4", {"think": 0.8, "no-think": 0.5})

    def began(result, rate):
        tests = {t: outcome(np.random.default_rng(1), rate) for t in result.task.suite.tasks}
        return result.model_copy(update={"outcomes": {**result.outcomes, "initial": tests}})

    initial = {"think": 0.7, "no-think": 0.3}
    results = [began(r, initial[r.task.cell]) if r.task.seed is None else r for r in results]
    verdict = verdict_on("table4", "Thinking helps on Bandit", results, needs=[])
    assert "the gap was there before training" in refused(verdict)
    assert verdict.ours.startswith("+")
    assert verdict.gain.startswith("-")


def test_a_measure_that_begins_at_its_largest_value_cannot_show_a_rise():
    for value, enough in ((0.95 * np.log(64), False), (0.5 * np.log(64), True)):
        rng = np.random.default_rng(0)
        curves = {
            INFORMATION: list(value * (1 - 0.02 * rng.random(40))),
            "success": list(rng.random(40)),
        }
        _, results = results_of("ragen2-information", {}, curves=curves)
        verdict = verdict_on("ragen2-information", "RAGEN-2: mutual information goes with success", results)
        assert ("of its largest value" in verdict.premise) is not enough


def test_claims_that_cannot_be_told_do_not_help_the_others():
    _, results = results_of("figure10", RATES)
    what = load_reproduction("figure10")
    verdicts = judge(what, Runs(sweep_of(what), results))
    alone = verdict_on("figure10", FRESH, results)
    one = next(v for v in verdicts if v.claim == alone.claim)
    assert one.p_holm >= alone.p_holm


def test_over_all_claims_at_once():
    holm, false_discoveries = over_all([0.001, 0.02, 0.03, float("nan"), 0.9])
    assert holm == [True, False, False, False, False]
    assert false_discoveries == [True, True, True, False, False]
