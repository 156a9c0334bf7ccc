"""What training tells TensorBoard and Weights & Biases."""

import time

import pytest

pytest.importorskip("torch")

from ragen_agents.starpo.run.checkpoint import Progress
from ragen_agents.starpo.run.journal import Journal
from ragen_envs.errors import RagenError


def journal(folder, done, *rows):
    sizes = {name: (folder / f"{name}.jsonl") for name in ("metrics", "samples")}
    found = {name: path.stat().st_size if path.exists() else 0 for name, path in sizes.items()}
    with Journal(folder, Progress(done, found["metrics"], found["samples"])) as one:
        for iteration, success in rows:
            one.metrics(iteration, {"success": success, "warnings": ["text is left out"]})


def test_tensorboard_shows_each_iteration_of_a_run_that_was_interrupted_once(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    journal(tmp_path, 0, (1, 0.25), (2, 0.5), (3, 0.75))
    time.sleep(1.1)  # TensorBoard orders files by the second that their names begin with
    journal(tmp_path, 2, (3, 0.875), (4, 1.0))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["success"]
    assert [(e.step, e.value) for e in events.Scalars("success")] == [
        (1, 0.25), (2, 0.5), (3, 0.875), (4, 1.0),
    ]  # fmt: skip


def test_wandb_keeps_a_run_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    journal(tmp_path, 0, (1, 0.25), (2, 0.5))
    assert list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))


@pytest.mark.parametrize(
    ("mode", "told"),
    [("online", "WANDB_MODE online: No API key"), ("sometimes", "but must be online, offline")],
)
def test_wandb_that_cannot_start_is_told_before_training(tmp_path, monkeypatch, mode, told):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.setenv("WANDB_API_KEY", "")
    with pytest.raises(RagenError, match=told):
        journal(tmp_path, 0)
