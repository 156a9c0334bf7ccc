"""Several commands may share the folder of a sweep and its stored results; a failed test is no result."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch")

from ragen_bench.training_sweeps import work
from ragen_bench.training_sweeps.results import add_to_archive, read_archive, read_result, write_result
from ragen_bench.training_sweeps.sweep_config import load_sweep
from ragen_bench.training_sweeps.tasks import Choice, plan
from results import make_result

from ragen_agents.policies.language_models import TransformersPolicy
from ragen_agents.run_files.files import write_atomically
from ragen_envs.errors import RagenError


def at_once(do, count=2):
    """Results of ``do(number)`` in so many threads, which begin together."""
    begin = threading.Barrier(count)

    def wait_and_do(number):
        begin.wait()
        return do(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(wait_and_do, range(count)))


def test_one_of_several_contents_that_are_written_at_once_is_there_whole(tmp_path):
    contents = [str(number) * 50_000 for number in range(4)]
    for round_ in range(20):
        path = tmp_path / f"{round_}.json"
        at_once(lambda number, path=path: write_atomically(path, contents[number]), count=4)
        assert path.read_text() in contents
    assert not list(tmp_path.glob("*.tmp"))


def test_results_that_are_stored_at_once_are_all_there(tmp_path):
    tasks = plan(load_sweep("sft"), Choice(seeds=4))
    results = [make_result(task) for task in tasks if task.seed is not None]
    for round_ in range(5):
        path = tmp_path / str(round_) / "sft.jsonl"
        at_once(lambda number, path=path: add_to_archive(path, results[number::4]), count=4)
        assert sorted(r.task.path for r in read_archive(path)) == sorted(r.task.path for r in results)


def small_task(folder, monkeypatch, episodes=4):
    """Controls of a sweep with few episodes, and the folder as the working directory."""
    (task, *_) = plan(load_sweep("risk"), Choice(seeds=1))
    suite = task.suite.model_copy(update={"episodes": episodes})
    monkeypatch.chdir(folder)
    return task.model_copy(update={"suite": suite})


def test_what_another_command_has_done_stays_as_it_is(tmp_path, monkeypatch):
    task = small_task(tmp_path, monkeypatch)
    write_result(tmp_path, make_result(task))
    before = (tmp_path / "result.json").read_bytes()
    work._do(task)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_bytes() == before


def test_a_test_whose_generation_breaks_is_no_result_and_is_played_again(tmp_path, monkeypatch):
    task = small_task(tmp_path, monkeypatch)

    def broken(self, prompts, seeds):
        raise RuntimeError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(TransformersPolicy, "_write", broken)
        with pytest.raises(RagenError, match=r"4 of 4 episodes of 'starter'"):
            work._do(task)
    assert read_result(tmp_path, task) is None
    work._do(task)
    result = read_result(tmp_path, task)
    assert all(len(o.success) == 4 for played in result.outcomes.values() for o in played.values())
