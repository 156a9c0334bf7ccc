"""Seeds that are added after verdicts were made, and how p-values are corrected for it."""

import shutil
from math import comb

import pytest

pytest.importorskip("torch")

from ragen_bench.reproduction.claims import judge
from ragen_bench.reproduction.reproduction_config import games_of
from ragen_bench.reproduction.reproduction_report import Report
from ragen_bench.reproduction.run_measures import Runs
from ragen_bench.training_sweeps.results import add_to_archive, borrowed, write_result
from ragen_bench.training_sweeps.state import read_states
from ragen_bench.training_sweeps.sweep_config import load_sweep
from ragen_bench.training_sweeps.sweep_run import SweepRun
from ragen_bench.training_sweeps.tasks import Choice, plan
from results import DOWN, UP, load_plain, make_result, results_of, sweep_of

LEARNS = "Sokoban: StarPO-S ends better than StarPO, where that learns"
COLLAPSES = "StarPO with group-relative advantages improves, then collapses on Sokoban"


def with_counts(results, counts):
    """Results whose cells had so many seeds at each look."""
    return [
        r if r.task.seed is None
        else r.model_copy(update={"seeds": next((n for n in counts if r.task.seed < n), None)})
        for r in results
    ]  # fmt: skip


def only(claim, what):
    return what.model_copy(update={"claims": [c for c in what.claims if c.text == claim]})


@pytest.mark.parametrize(
    ("counts", "factor"),
    [((), 1), ((12,), 1), ((3, 12), 1), ((6, 12), 2), ((6,), 2), ((4, 6, 12), 4)],
)
def test_p_values_are_doubled_each_time_seeds_are_added(counts, factor):
    rates = {"starpo-s": 0.55, "starpo-ppo": 0.5}
    what, results = results_of("figure9", rates, seeds=12, games=("Sokoban",), seed_sd=0.05)
    what = only(LEARNS, what)
    (plain,) = judge(what, Runs(sweep_of(what), results))
    (adjusted,) = judge(what, Runs(sweep_of(what), with_counts(results, counts)))
    assert 0 < plain.p_holm < 0.25
    assert adjusted.p_holm == pytest.approx(factor * plain.p_holm)


def test_the_correction_is_for_a_claims_own_cells_only():
    what, results = results_of("collapse", {}, curves=DOWN)
    added = [r for r in results if (r.task.game, r.task.cell) == ("Sokoban", "starpo-grpo")]
    others = [r for r in results if r not in added]
    sweep = sweep_of(what)
    for claim in (
        COLLAPSES,
        "StarPO with group-relative advantages improves, then collapses on Bandit",
    ):
        one = only(claim, what)
        (plain,) = judge(one, Runs(sweep, results))
        (adjusted,) = judge(one, Runs(sweep, others + with_counts(added, (4, 6))))
        assert adjusted.p_holm == (1 + (claim == COLLAPSES)) * plain.p_holm


def test_a_claim_on_times_is_corrected_for_runs_with_times_only():
    what, results = results_of("figure7", {}, seeds=9, games=("Sokoban",))
    one = only("Keeping 25% saves time per iteration", what)

    def timed(result):
        """The first six seeds have times, which differ between cells and a little between seeds."""
        seed, slow = result.task.seed, result.task.cell == "all"
        times = {"seconds/total": [2.0 + slow + 0.01 * seed] * 4} if seed < 6 else {}
        return result.model_copy(update={"seeds": 6 if seed < 6 else 9, "curves": times})

    results = [timed(r) for r in results if r.task.seed is not None]
    (verdict,) = judge(one, Runs(sweep_of(what), results))
    assert verdict.p_holm == pytest.approx(2 / comb(12, 6))


def test_changed_claims_and_replaced_runs_double_p_values_too():
    rates = {"starpo-s": 0.55, "starpo-ppo": 0.5}
    what, results = results_of("figure9", rates, seeds=12, games=("Sokoban",), seed_sd=0.05)
    what = only(LEARNS, what)
    changed = what.model_copy(update={"claims": [what.claims[0].model_copy(update={"changed": 1})]})
    replaced = sweep_of(what).model_copy(update={"replaced": {"Sokoban/starpo-ppo": 1}})
    plain, once, twice = (
        judge(claims, Runs(sweep, results))[0].p_holm
        for claims, sweep in (
            (what, sweep_of(what)), (changed, sweep_of(what)), (changed, replaced)
        )
    )  # fmt: skip
    assert 0 < plain < 0.25
    assert (once, twice) == (pytest.approx(2 * plain), pytest.approx(4 * plain))


def test_own_runs_do_not_count_those_of_another_sweep(tmp_path):
    """Runs of another sweep may have been looked at elsewhere, with other numbers of seeds."""
    tasks = [t for t in plan(load_sweep("filter"), Choice(seeds=9, games=("Sokoban",)))
             if t.cell == "grpo-all" and t.seed is not None]  # fmt: skip
    twins = [make_result(t.model_copy(update={"sweep": "algorithm", "cell": "starpo-grpo"})) for t in tasks]
    for task in tasks[:6]:
        (tmp_path / task.path).mkdir(parents=True)
        write_result(tmp_path / task.path, make_result(task))
    states = read_states(tasks, tmp_path, {}, borrowed(twins, tasks))
    assert [s.source is None for s in states] == [True] * 6 + [False] * 3
    assert {s.result.seeds for s in states if s.source is None} == {6}


def test_a_cell_with_fewer_seeds_than_another_is_not_unfinished(tmp_path):
    what, results = results_of("collapse", {}, seeds=9, curves=DOWN)
    few = [r for r in results if r.task.seed is None or r.task.seed < 6 or r.task.cell == "starpo-grpo"]
    choice = Choice(games=tuple(games_of(what, "laptop")))
    run = SweepRun(what.load_sweep(), choice, tmp_path, None, kept=tmp_path)

    def unfinished(stored):
        shutil.rmtree(tmp_path / "laptop", ignore_errors=True)
        add_to_archive(run.archive(tmp_path), stored)
        return [n for n in Report(what, run.with_kept_seeds()).notes() if n.startswith("unfinished")]

    assert unfinished(few) == []
    lost = [r for r in few if (r.task.game, r.task.cell, r.task.seed) != ("Bandit", "starpo-s", 5)]
    assert unfinished(lost) == ["unfinished: 1 task is missing"]


def false_verdicts(looks, corrected):
    """The exact chance that a claim about fair coins is decided at one of the looks."""
    what = only(COLLAPSES, load_plain("collapse"))
    own = what.claims[0].model_copy(update={"origin": "own"})  # runs may be shorter than the paper's
    what = what.model_copy(update={"claims": [own]})
    sweep = sweep_of(what)
    tasks = [
        t for t in plan(sweep, Choice(seeds=looks[-1], games=("Sokoban",)))
        if t.cell == "starpo-grpo" and t.seed is not None
    ]  # fmt: skip
    falls = [make_result(task, curves=DOWN) for task in tasks]
    stays = [make_result(task, curves=UP) for task in tasks]
    open_, wrong = {0: 1.0}, 0.0
    for before, now in zip((0, *looks), looks, strict=False):
        grown: dict[int, float] = {}
        for fallen, chance in open_.items():
            for more in range(now - before + 1):
                way = comb(now - before, more) / 2 ** (now - before)
                grown[fallen + more] = grown.get(fallen + more, 0.0) + chance * way
        open_ = {}
        for fallen, chance in grown.items():
            results = falls[:fallen] + stays[fallen:now]
            seen = [n for n in looks if n <= now] if corrected else [now]
            (verdict,) = judge(what, Runs(sweep, with_counts(results, seen)))
            if verdict.verdict == "undecided":
                open_[fallen] = chance
            else:
                wrong += chance
    return wrong


def test_adding_seeds_until_a_claim_is_decided_seldom_decides_it_wrongly():
    looks = (6, 12, 17)
    assert false_verdicts(looks, corrected=False) > 0.08
    assert false_verdicts(looks, corrected=True) <= 0.05
    assert false_verdicts((6,), corrected=True) == pytest.approx(2 / 2**6)


def test_stored_runs_remember_with_how_many_others_they_were_judged(tmp_path):
    what = load_plain("collapse")
    root, kept = tmp_path / "runs", tmp_path / "kept"
    games = tuple(games_of(what, "laptop"))

    def report(seeds):
        choice = Choice(seeds=seeds, games=games)
        return Report(what, SweepRun(sweep_of(what), choice, root, None, kept=kept))

    def finish(seeds):
        for task in plan(what.load_sweep(), Choice(seeds=seeds, games=("Sokoban",))):
            if task.cell == "starpo-grpo" or task.seed is None:
                (root / task.path).mkdir(parents=True, exist_ok=True)
                write_result(root / task.path, make_result(task, curves=DOWN))

    finish(6)
    first = report(6)
    first.write(kept)
    assert not [n for n in first.notes() if "seeds were added" in n]
    finish(9)
    assert not [n for n in report(6).notes() if "seeds were added" in n]  # the same six again
    for again in (report(9), report(9)):
        assert [n for n in again.notes() if "seeds were added" in n] == [
            "p-values are doubled each time that seeds were added after verdicts: Sokoban starpo-grpo (6, 9)"
        ]
        again.write(kept)
    (p,) = [v.p_holm for v in report(9).verdicts if v.claim == COLLAPSES]
    assert p == pytest.approx(2 * len(what.claims) * 2**-8)
