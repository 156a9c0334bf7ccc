"""What would decide an open claim: how many further runs, and their time."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")

from ragen_bench.reproduction.claims import claims_data, judge
from ragen_bench.reproduction.findings import more_runs, p_of_gap, p_of_shares, p_of_shift
from ragen_bench.reproduction.run_measures import Runs
from ragen_bench.training_sweeps.state import Cost
from ragen_bench.training_sweeps.sweep_run import SweepRun
from ragen_bench.training_sweeps.tasks import Choice
from results import (
    DOWN,
    PAPERS,
    SHRINKS,
    UP,
    judged,
    load_plain,
    make_result,
    results_of,
    runs_of,
    sweep_of,
)


def test_what_would_decide_a_claim_would_do_so_among_all_of_them():
    what, results = results_of("collapse", {}, curves=DOWN)
    verdicts = judge(what, Runs(sweep_of(what), results))
    share = next(v for v in verdicts if v.ours.startswith("6 of 6 runs"))
    runs = int(share.remedy.split()[0])
    level = 0.05 / len(verdicts) / 2  # adding seeds doubles the p-value
    assert 2.0 ** (1 - runs) <= level < 2.0 ** (2 - runs)


@pytest.mark.parametrize(("seeds", "level"), [(3, 0.05), (4, 0.025)])
def test_seeds_added_to_up_to_three_are_no_second_look(seeds, level):
    def curves(_):
        return DOWN

    claim = "StarPO with group-relative advantages improves, then collapses on Bandit"
    runs = runs_of("collapse", curves, PAPERS, seeds=seeds)
    stored = [r.model_copy(update={"seeds": seeds}) for r in runs.results if r.task.seed is not None]
    found = judged("collapse", claim, Runs(runs.sweep, stored))
    assert found.ours.startswith(f"{seeds} of {seeds} runs")
    assert found.seeds_needed == next(n for n in range(1, 99) if 2.0 ** (1 - n) <= level)


def test_a_share_stays_undecided_until_so_many_runs():
    def curves(task):
        return DOWN if (task.seed or 0) >= 2 else UP

    claim = "StarPO with group-relative advantages improves, then collapses on Bandit"
    found = judged("collapse", claim, runs_of("collapse", curves, PAPERS))
    assert found.verdict == "undecided"
    needed = found.seeds_needed
    assert found.remedy == f"{needed} seeds, if the effect stays as it is"
    falls = math.floor(4 / 6 * needed)
    assert stats.binomtest(falls, needed).pvalue <= 0.05 / 2  # adding seeds doubles the p-value
    assert stats.binomtest(math.floor(4 / 6 * (needed - 1)), needed - 1).pvalue > 0.05 / 2


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, 1.0), (-2.0, 1.0)])
def test_a_mean_is_decided_by_so_many_runs_with_even_odds(mean, deviation):
    """Half of the repetitions of an experiment of that size reject that there is nothing."""
    needed = more_runs(2, lambda n: p_of_shift(mean, deviation, n), 0.05).seeds
    draws = np.random.default_rng(0).normal(mean, deviation, (4000, needed))
    decided = (stats.ttest_1samp(draws, 0.0, axis=1).pvalue <= 0.05).mean()
    assert 2.0 ** (1 - needed) <= 0.05
    assert 0.4 < decided < (0.6 if needed > 6 else 1.01)


def test_no_number_of_runs_decides_where_there_is_nothing():
    assert more_runs(6, lambda n: p_of_gap(0.0, (1.0, 1.0), (n, n)), 0.05).seeds == 0
    rare = Fraction(3, 10)
    assert more_runs(6, lambda n: p_of_shares((rare, rare), (n, n)), 0.05).seeds == 0


def test_a_share_of_further_runs_is_not_rounded_twice():
    """15 of 22 are 30 of 44, although 15 / 22 * 44 is 29.999999999999996."""

    def curves(task):
        return DOWN if (task.seed or 0) >= 7 else UP

    claim = "StarPO with group-relative advantages improves, then collapses on Bandit"
    found = judged("collapse", claim, runs_of("collapse", curves, PAPERS, seeds=22))
    assert found.ours.startswith("15 of 22 runs")
    assert stats.binomtest(30, 44).pvalue <= 0.05 / 2  # adding seeds doubles the p-value
    assert found.seeds_needed == 44


def test_runs_without_the_number_are_needed_too():
    """If every other run cannot tell, it takes twice as many."""

    def curves(every):
        def of(task):
            number, rest = divmod(task.seed or 0, every)
            end = (0.3, 3.0, 0.2, 2.0, 0.1, 0.9)[number]
            return {"reward_std": [1.0] if rest else [1.0] * 5 + [end] * 5}

        return of

    all_, half = (
        judged("ragen2-filters", SHRINKS, runs_of("ragen2-filters", curves(n), seeds=6 * n)) for n in (1, 2)
    )
    assert half.ours == all_.ours + " in 6 of 12 runs"
    assert half.verdict == all_.verdict == "undecided"
    assert half.seeds_needed == 2 * all_.seeds_needed > 12


def test_one_number_among_many_runs_asks_for_no_second_seed():
    def curves(task):
        return {"reward_std": [1.0] if task.seed else [1.0] * 5 + [0.5] * 5}

    found = judged("ragen2-filters", SHRINKS, runs_of("ragen2-filters", curves))
    assert (found.verdict, found.remedy) == ("undecided", "longer runs")


def test_an_effect_near_nothing_needs_only_the_runs_that_show_it_is_smaller():
    """That replies change at all would take far more runs than that they do not lose half of 73%."""
    ends = (20.0, 100.0, 30.0, 90.0, 25.0, 110.0)

    def curves(task):
        return {"reply_tokens": [50.0] * 5 + [ends[task.seed or 0]] * 5}

    found = judged("figure11", "Replies get shorter on Bandit", runs_of("figure11", curves))
    assert found.verdict == "undecided"
    changes = np.log(np.array(ends) / 50)
    shift = changes.mean() - np.log1p(-0.73 / 2)

    def decides(n):
        return p_of_shift(shift, changes.std(ddof=1), n) <= 0.05 / 2

    assert found.seeds_needed == next(n for n in range(7, 99) if decides(n)) < 20


def test_runs_that_are_there_already_count_where_the_other_cell_has_fewer():
    def curves(task):
        seed, critic = task.seed or 0, task.cell == "starpo-ppo"
        if critic and seed >= 6:
            return None
        return {"validation/success": [0.1 + 0.05 * (seed % 6) + 0.07 * critic] * 9}

    claim = "A critic's peak on Bandit is higher"
    found = judged("figure5", claim, runs_of("figure5", curves, PAPERS, seeds=30))
    assert (found.verdict, found.seeds) == ("undecided", 6)
    deviations = [np.std(0.05 * (np.arange(n) % 6), ddof=1) for n in (6, 30)]

    def decides(n):
        test = stats.ttest_ind_from_stats(
            0.07, deviations[0], n, 0, deviations[1], max(n, 30), equal_var=False
        )
        return test.pvalue <= 0.05 / 2

    assert found.seeds_needed == next(n for n in range(7, 99) if decides(n)) < 30


def test_only_runs_in_which_it_could_happen_count_towards_a_share():
    """Two of six runs collapsed, both without the sign, so of n runs about a third can tell."""

    def curves(task):
        return (DOWN if task.seed in (0, 1) else UP) | {"reward_std": [0.5] * 40}

    found = judged(
        "figure6",
        "With a critic on FrozenLake the in-group deviation falls before success does",
        runs_of("figure6", curves, PAPERS),
    )
    assert found.ours.startswith("0 of 2 runs")
    able = next(n for n in range(2, 100) if stats.binomtest(0, n).pvalue <= 0.05 / 2)
    assert found.remedy == f"{3 * able} seeds, if the effect stays as it is"


def test_a_run_without_the_number_does_not_hide_those_with_it():
    def curves(task):
        length = 1 if task.seed == 2 else 10
        end = 0.0 if task.seed == 1 else 0.2 + 0.01 * (task.seed or 0)
        return {"reward_std": ([1.0] * 5 + [end] * 5)[:length]}

    claim = "RAGEN-2: the in-group deviation shrinks in training without a filter"
    found = judged("ragen2-filters", claim, runs_of("ragen2-filters", curves))
    assert (found.verdict, found.seeds) == ("undecided", 5)  # five equal signs have p = 6%
    assert found.ours.endswith("in 5 of 6 runs")


def test_further_runs_and_their_time_are_those_that_are_missing():
    what = load_plain("figure10")
    run = SweepRun(what.load_sweep(), Choice(), Path("nowhere"), None)
    states = [
        s._replace(result=make_result(s.task) if s.task.cell != "rollouts-5" else None) for s in run.states()
    ]
    results = [s.result for s in states if s.result is not None]
    verdicts = judge(what, Runs(sweep_of(what), results))
    cost = Cost(what.load_sweep(), "laptop", states)
    data = claims_data(what, verdicts, states, cost)
    not_run = data[data["verdict"] == "not run"]
    assert not_run["further_runs"].tolist() == [6] * len(not_run)
    task = next(s.task for s in states if s.result is None)
    assert not_run["core_hours"].tolist() == [pytest.approx(6 * cost.whole(task) / 3600)]
    assert (data.loc[data["verdict"] == "supported", "further_runs"] == 0).all()


def test_runs_without_times_are_no_further_times():
    """Times of nine runs of each cell that would be enough are known of six only."""
    what = load_plain("figure7")
    claims = [c for c in what.claims if c.text == "Keeping 25% saves time per iteration"]
    what = what.model_copy(update={"claims": claims})
    run = SweepRun(what.load_sweep(), Choice(seeds=9), Path("nowhere"), None)

    def timed(task):
        seconds = 4.0 + 1.8 * (task.cell == "all") + (task.seed or 0) % 6
        return {"success": [0.5] * 9} | ({"seconds/total": [seconds] * 9} if (task.seed or 0) < 6 else {})

    states = [s._replace(result=make_result(s.task, curves=timed(s.task))) for s in run.states()]
    verdicts = judge(what, Runs(sweep_of(what), [s.result for s in states]))
    (needed,) = [v.seeds_needed for v in verdicts]
    assert needed > 9
    data = claims_data(what, verdicts, states, Cost(run.sweep, "laptop", states))
    assert data["further_runs"].tolist() == [2 * (needed - 6)]


def test_runs_of_other_commands_do_not_hide_the_times_of_this_one():
    def curves(task):
        slow = 10.0 if task.cell == "all" else 4.0
        return {"seconds/total": [slow + (task.seed or 0) / 10] * 40}

    runs = runs_of("figure7", curves)
    untimed = [
        result.model_copy(update={"curves": {}})
        if (result.task.cell, result.task.seed) in (("all", 0), ("keep-25", 1))
        else result
        for result in runs.results
    ]
    claim = "Keeping 25% saves time per iteration"
    for results, seeds in ((runs.results, 6), (untimed, 4)):
        found = judged("figure7", claim, Runs(runs.sweep, results))
        assert (found.verdict, found.seeds) == ("supported", seeds)
        assert found.p_holm == pytest.approx(2 / math.comb(2 * seeds, seeds))
