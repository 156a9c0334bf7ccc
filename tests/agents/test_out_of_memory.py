"""Memory that runs out, and engines that fail, at each point of a run: what is saved, and what is resumed."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from ragen_bench.__main__ import main  # noqa: E402
from training_runs import assert_equal_weights, command, lines, trainer  # noqa: E402

from ragen_agents.engines import EngineError  # noqa: E402
from ragen_agents.starpo.run import checkpoint  # noqa: E402
from ragen_agents.starpo.run.errors import OutOfMemoryError  # noqa: E402
from ragen_agents.starpo.update import learner  # noqa: E402

LAYER = {
    "save_every": 2, "iterations": 3, "filter": {"kind": "none"}, "evaluation": {"every": 1},
    "update": {"learning_rate": 1e-2},
}  # fmt: skip
CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CUDA_ITSELF = RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later")
CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
NCCL = RuntimeError("NCCL error ... Last error: Cuda failure 2 'out of memory'")
CPU = RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory")
GONE = EngineError("the engine is gone")


def fail(owner, name, at, error):
    """Let a call of a method, counted from 0, raise an error."""
    real, calls = getattr(owner, name), []

    def called(*arguments, **more):
        calls.append(name)
        if len(calls) - 1 == at:
            raise error
        return real(*arguments, **more)

    setattr(owner, name, called)


def owner_of(one, place):
    return {
        "poll": one.engine, "sync": one.engine, "release": one.engine, "prepare": one.learner,
        "_loss": one.learner, "save_file": checkpoint,
        "step": one.learner.optimizer,
    }[place]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    trainer(folder, LAYER, {"model": str(tiny)}, preset="starpo-ppo").run()
    return folder


PLAYING = "rollout.group_size"
PASSES = "update.max_tokens_per_micro_batch .16384. or set update.gradient_checkpointing=true"


@pytest.mark.parametrize(
    ("place", "at", "error", "saved", "advice"),
    [
        ("poll", 0, CUDA, 0, "evaluation.episodes"),
        ("poll", 11, GONE, 2, None),
        ("sync", 0, GONE, 0, None),
        ("sync", 2, NCCL, 2, PLAYING),
        ("sync", 3, GONE, 3, None),
        ("prepare", 2, CUDA_ITSELF, 2, PASSES),
        ("_loss", 5, MemoryError(), 1, PASSES),  # two steps of two passes in each iteration
        ("step", 0, CUBLAS, None, PASSES),
        ("save_file", 0, CPU, 2, "the same command resumes"),
    ],
)
def test_what_was_settled_is_saved_and_the_resumed_run_ends_as_one_never_stopped(
    place, at, error, saved, advice, whole, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(checkpoint, "save_file", checkpoint.save_file)
    cut, layer = tmp_path / "cut", {**LAYER, "model": str(tiny)}
    stopped = trainer(cut, layer, preset="starpo-ppo")
    fail(owner_of(stopped, place), place, at, error)
    raised = EngineError if advice is None else OutOfMemoryError
    with pytest.raises(raised, match=advice or "gone") as caught:
        stopped.run()
    assert "\n" not in str(caught.value)
    if advice is not None:
        assert ("the state is saved" in str(caught.value)) is (saved is not None)
    found = sorted(path.name for path in (cut / "checkpoints").glob("*"))
    assert found[-1:] == ([] if saved is None else [f"{saved:06d}"])
    monkeypatch.undo()
    trainer(cut, layer, preset="starpo-ppo").run()
    assert lines(cut) == lines(whole)
    assert (cut / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    last = Path("checkpoints") / "000003"
    assert_equal_weights(cut / last, whole / last)
    tensors = [(folder / last / "trainer.safetensors").read_bytes() for folder in (cut, whole)]
    assert tensors[0] == tensors[1]


def test_a_half_done_update_leaves_the_last_checkpoint(whole, tiny, tmp_path):
    cut, layer = tmp_path / "cut", {**LAYER, "model": str(tiny)}
    stopped = trainer(cut, layer, preset="starpo-ppo")
    fail(stopped.learner, "_loss", 10, CUDA)  # the second step of the third iteration
    with pytest.raises(OutOfMemoryError, match="the last checkpoint is kept"):
        stopped.run()
    assert [path.name for path in (cut / "checkpoints").iterdir()] == ["000002"]
    trainer(cut, layer, preset="starpo-ppo").run()
    assert lines(cut) == lines(whole)
    last = Path("checkpoints") / "000003"
    assert_equal_weights(cut / last, whole / last)


def test_memory_that_also_runs_out_while_saving_keeps_the_last_checkpoint(tiny, tmp_path, monkeypatch):
    cut, layer = tmp_path / "cut", {**LAYER, "model": str(tiny)}
    trainer(cut, layer, {"iterations": 2}, preset="starpo-ppo").run()
    stopped = trainer(cut, layer, preset="starpo-ppo")
    fail(stopped.learner, "prepare", 0, CUDA)

    def full(*_):
        raise CPU

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OutOfMemoryError, match="the last checkpoint is kept"):
        stopped.run()
    assert [p.name for p in (cut / "checkpoints").iterdir() if not p.suffix] == ["000002"]


def test_memory_that_runs_out_while_a_run_is_resumed_is_no_bad_checkpoint(tiny, tmp_path, monkeypatch):
    layer = {**LAYER, "model": str(tiny)}
    trainer(tmp_path, layer, {"iterations": 1}).run()

    def full(*_):
        raise CPU

    monkeypatch.setattr(checkpoint, "load_file", full)
    with pytest.raises(OutOfMemoryError, match="out of memory in resuming; close other programs"):
        trainer(tmp_path, layer).run()


def test_other_errors_of_torch_are_not_taken_for_it(tiny, tmp_path):
    stopped = trainer(tmp_path, {**LAYER, "model": str(tiny)})
    fail(stopped.learner, "prepare", 0, RuntimeError("sizes do not match"))
    with pytest.raises(RuntimeError, match="sizes do not match"):
        stopped.run()
    assert not (tmp_path / "checkpoints").exists()


def test_an_engine_that_fails_right_after_a_rollback(tiny, tmp_path, monkeypatch):
    from ragen_agents.starpo import trainer as module

    told, real = [0.9, 0.8, 0.8, 0.6, 0.6, 0.05, 0.6, 0.6], module.rollout_metrics
    layer = {"model": str(tiny), "iterations": 8, "filter": {"kind": "none"}, "save_every": 2,
             "monitor": {"window": 1, "action": "rollback"}, "evaluation": {"every": 0}}  # fmt: skip
    folders = {"whole": tmp_path / "whole", "cut": tmp_path / "cut"}
    for name, folder in (*folders.items(), ("cut", folders["cut"])):
        one = trainer(folder, layer)
        monkeypatch.setattr(
            module, "rollout_metrics",
            lambda t, one=one: {
                **real(t), **dict.fromkeys(("success", "return"), told[one.state.progress.iteration])
            },
        )  # fmt: skip
        if name == "cut" and not (folder / "checkpoints").exists():
            fail(one.engine, "sync", 7, GONE)
            with pytest.raises(EngineError, match="gone"):
                one.run()
            assert one.state.progress.rolled_back == 6
        else:
            one.run()
    assert lines(folders["cut"]) == lines(folders["whole"])
    assert_equal_weights(*(folder / "checkpoints" / "000008" for folder in folders.values()))


def test_the_command_ends_with_one_line(tiny, tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise CUDA

    monkeypatch.setattr(learner, "score_trajectories", fails)
    assert main(command(tiny, tmp_path / "run", iterations=1)[3:]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert said[0].startswith("error: out of memory in information, the state is saved; lower update.max_")
    monkeypatch.undo()
    assert main(command(tiny, tmp_path / "run", iterations=1)[3:]) == 0


def test_a_model_that_does_not_fit_is_one_line(tiny, tmp_path, monkeypatch, capsys):
    from ragen_agents.starpo import trainer as module

    def fails(*_, **__):
        raise CUDA

    monkeypatch.setattr(module, "Learner", fails)
    assert main(command(tiny, tmp_path / "run", iterations=1)[3:]) == 2
    assert "error: out of memory in loading; use a smaller model" in capsys.readouterr().err
