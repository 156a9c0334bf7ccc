"""Where the tasks of a sweep compute on a machine with a GPU."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.evaluation import ray_cluster
from ragen_bench.training_sweeps import task_process
from ragen_bench.training_sweeps.sweep_config import load_sweep
from ragen_bench.training_sweeps.sweep_run import SweepRun
from ragen_bench.training_sweeps.tasks import Choice


@pytest.mark.parametrize(("scale", "shown"), [("laptop", ""), ("paper", "0,1")])
def test_tasks_at_laptop_scale_leave_a_gpu_alone(scale, shown, monkeypatch, tmp_path):
    """There is one per CPU, and the stored results were computed on CPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    seen = []

    def popen(*_, env, **__):
        seen.append(env)
        return SimpleNamespace(stdin=None)

    monkeypatch.setattr(task_process.subprocess, "Popen", popen)
    run = SweepRun(load_sweep("filter"), Choice(scale=scale), tmp_path, workers=None)
    _, start = run._starter()
    start(tmp_path)
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in seen] == [shown]


@pytest.mark.parametrize(("gpus", "hidden"), [(0.0, True), (0.5, False)])
def test_rays_tasks_see_the_gpus_that_they_request(gpus, hidden, monkeypatch, tmp_path):
    seen = []
    task = SimpleNamespace(remote=lambda _, environment: seen.append(environment))
    cluster = SimpleNamespace(slots=1, ray=None, remote=lambda *_, **__: task)
    monkeypatch.setattr(ray_cluster, "RayCluster", lambda *_: cluster)
    _, submit = ray_cluster.ray_jobs(1, gpus, task_process.run_process)
    submit(tmp_path)
    assert ["CUDA_VISIBLE_DEVICES" in environment for environment in seen] == [hidden]


def test_a_worker_of_ray_that_waits_for_a_task_does_not_import_torch():
    code = "import sys, ragen_bench.training_sweeps.task_process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
