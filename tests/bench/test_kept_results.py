"""The results in benchmarks/results are those of today's sweeps."""

from pathlib import Path

import pytest
from ragen_bench.sweeps.archive import archive_path, check_archive, matching, read_archive
from ragen_bench.sweeps.sweep_config import bundled_sweeps, load_sweep
from ragen_bench.sweeps.tasks import Choice, plan

from ragen_envs import SUITE_VERSION

RESULTS = Path(__file__).parents[2] / "benchmarks/results"


@pytest.mark.parametrize("name", bundled_sweeps())
def test_kept_results_belong_to_the_tasks_of_their_sweep(name):
    tasks = plan(load_sweep(name), Choice(seeds=10))
    kept = read_archive(archive_path(RESULTS, name, "laptop"))
    check_archive(kept, tasks, RESULTS)
    present = [r.task.path for r in kept if r.task.suite_version == SUITE_VERSION]
    assert sorted(matching(kept, tasks)) == sorted(present)


def test_settings_that_affect_memory_alone_do_not_part_results():
    tasks = plan(load_sweep("filter"), Choice(seeds=1))
    kept = read_archive(archive_path(RESULTS, "filter", "laptop"))
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
