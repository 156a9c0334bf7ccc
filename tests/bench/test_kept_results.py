"""The results in benchmarks/results are those of today's sweeps."""

from pathlib import Path

import pytest
from ragen_bench.training_sweeps.results import archive_path, check_archive, matching, read_archive
from ragen_bench.training_sweeps.sweep_config import bundled_sweeps, load_sweep
from ragen_bench.training_sweeps.sweep_run import SweepRun
from ragen_bench.training_sweeps.tasks import Choice, plan

RESULTS = Path(__file__).parents[2] / "benchmarks/results"


def model_of(name):
    """Another initial model where the sweep's must be downloaded first."""
    return "starter" if name == "pretrained" else None


@pytest.mark.parametrize("name", bundled_sweeps())
def test_kept_results_belong_to_the_tasks_of_their_sweep(name):
    kept = read_archive(archive_path(RESULTS, name, "laptop"))
    seeds = max((r.task.seed + 1 for r in kept if r.task.seed is not None), default=1)
    tasks = plan(load_sweep(name), Choice(seeds=seeds, model=model_of(name)))
    check_archive(kept, tasks, RESULTS)
    assert sorted(matching(kept, tasks)) == sorted(r.task.path for r in kept)


def test_settings_that_affect_memory_alone_do_not_part_results():
    kept = read_archive(archive_path(RESULTS, "filter", "laptop"))
    tasks = plan(load_sweep("filter"), Choice(seeds=1))
    found = matching(kept, tasks)
    smaller = [
        task.model_copy(
            update={
                "train": task.train.model_copy(
                    update={"vllm": task.train.vllm.model_copy(update={"cache_gib": 3.0})}
                )
            }
        )
        for task in tasks
    ]
    assert found
    assert matching(kept, smaller) == found


def test_seeds_that_another_sweep_has_run_count():
    run = SweepRun(load_sweep("sft"), Choice(), RESULTS / "no-runs", None, kept=RESULTS)
    own = [r.task.seed for r in read_archive(archive_path(RESULTS, "sft", "laptop"))]
    with_theirs = run.with_kept_seeds()
    assert with_theirs.choice.seeds > max(seed for seed in own if seed is not None) + 1
    last = [s for s in with_theirs.states() if s.task.seed == with_theirs.choice.seeds - 1]
    assert any(state.result is not None for state in last)
