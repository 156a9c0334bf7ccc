"""What training tells TensorBoard, Weights & Biases and Trackio."""

import sys
import threading
import time
from types import ModuleType, SimpleNamespace

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


@pytest.mark.parametrize(
    ("done", "shown"),
    [(2, [(1, 0.25), (2, 0.5), (3, 0.875), (4, 1.0)]), (None, [(3, 0.875), (4, 1.0)])],
    ids=["after a checkpoint", "before the first one"],
)
def test_tensorboard_shows_each_iteration_of_a_run_that_was_interrupted_once(
    done, shown, tmp_path, monkeypatch
):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    journal(tmp_path, 0, (1, 0.25), (2, 0.5), (3, 0.75))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 2)  # file names begin with the second, and order files
    if done is None:
        (tmp_path / "metrics.jsonl").unlink()
    journal(tmp_path, done or 0, (3, 0.875), (4, 1.0))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["success"]
    assert [(e.step, e.value) for e in events.Scalars("success")] == shown


def trajectory(group, success):
    messages = [{"role": "user", "content": "board"}, {"role": "assistant", "content": "Up"}]
    return SimpleNamespace(group=group, episode_return=1.5, success=success, end="terminated",
                           messages=messages, turns=[])  # fmt: skip


def sampled(folder):
    with Journal(folder, Progress(0, 0, 0)) as one:
        one.sample(1, "train", trajectory(0, True))
        one.metrics(1, {"success": 0.5})
        one.sample(1, "validation", trajectory(3, False))


def test_tensorboard_shows_the_samples(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    sampled(tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert len(events.Tags()["tensors"]) == 2
    (event,) = events.Tensors("train samples/0/text_summary")
    assert b"solved, return 1.5" in event.tensor_proto.string_val[0]
    assert b"[assistant]" in event.tensor_proto.string_val[0]


class Recorded:
    """Stands for the run of a tracker that is not installed here."""

    def __init__(self):
        self.logs, self.finished = [], False

    def log(self, values, step=None):
        self.logs.append((step, values))

    def finish(self):
        self.finished = True


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_tables_of_samples_go_with_the_metrics(name, tmp_path, monkeypatch):
    run, package = Recorded(), ModuleType(name)
    package.init = lambda **_: run
    package.Table = lambda columns, data: (columns, data)
    package.Error, package.Settings = RuntimeError, lambda **_: None
    monkeypatch.setitem(sys.modules, name, package)
    sampled(tmp_path)
    (step, values), (_, left) = run.logs
    assert (step, values["success"]) == (1, 0.5)
    columns, rows = values["samples"]
    assert columns == ["iteration", "kind", "group", "success", "return", "end", "conversation"]
    assert rows == [[1, "train", 0, True, 1.5, "terminated", "[user]\nboard\n\n[assistant]\nUp"]]
    assert [row[1:3] for row in left["samples"][1]] == [["validation", 3]]
    assert run.finished


def test_a_tracker_that_cannot_start_leaves_no_other_one_open(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    package = ModuleType("trackio")
    package.init = lambda **_: int("a")
    monkeypatch.setitem(sys.modules, "trackio", package)
    monkeypatch.setitem(sys.modules, "wandb", None)
    before = threading.active_count()
    with pytest.raises(RagenError, match="Trackio does not start"):
        journal(tmp_path, 0)
    assert threading.active_count() == before  # TensorBoard's writer has one


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_the_real_package_takes_the_tables(name, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    sampled(tmp_path)


def test_wandb_keeps_a_run_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    journal(tmp_path, 0, (1, 0.25), (2, 0.5))
    assert list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))


@pytest.mark.parametrize(
    ("mode", "told"),
    [("online", "WANDB_MODE online: No API key"), ("sometimes", "WANDB_MODE sometimes")],
)
def test_wandb_that_cannot_start_is_told_before_training(tmp_path, monkeypatch, mode, told):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", mode)
    monkeypatch.setenv("WANDB_API_KEY", "")
    with pytest.raises(RagenError, match=told):
        journal(tmp_path, 0)
