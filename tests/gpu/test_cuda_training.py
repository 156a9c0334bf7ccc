"""Updates on a GPU: the numbers of a CPU, adapters, layers computed again, and memory that runs out."""

import gc
import os
import subprocess

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from training_runs import command, lines, trainer  # noqa: E402

from ragen_agents.starpo.callbacks import Callback  # noqa: E402
from ragen_agents.starpo.run.checkpoint import latest  # noqa: E402
from ragen_agents.starpo.run.errors import OutOfMemoryError  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402

SMALL = {"game": "ragen/FrozenLakeText-v0", "filter": {"kind": "none"}, "evaluation": {"every": 0}}
WORKSPACES = 2**26
"""Bytes that cuBLAS takes from PyTorch on Hopper, for itself and for cublasLt; libraries are not planned."""


def metrics(folder):
    """Those that depend on what was learned."""
    names = ("reply_tokens", "return", "entropy", "grad_norm", "policy_loss")
    found = [line for line in lines(folder) if line["iteration"]]
    return [[line[name] for name in names if name in line] for line in found]


def learned(tiny, folder, settings, **environment):
    arguments = command(tiny, folder, "update.learning_rate=1e-3", *settings, iterations=2)
    subprocess.run(arguments, check=True, env=os.environ | environment)
    return metrics(folder)


@pytest.mark.parametrize("settings", [[], ["lora.rank=8"]], ids=["all", "lora"])
def test_two_iterations_are_those_of_a_cpu(settings, tiny, tmp_path):
    """In float32, whose rounding differs: a token drawn at an edge could differ, but hardly does."""
    there = learned(tiny, tmp_path / "cpu", settings, CUDA_VISIBLE_DEVICES="")
    here = learned(tiny, tmp_path / "here", settings)
    assert len(here) == 2
    for ours, theirs in zip(here, there, strict=True):
        assert ours == pytest.approx(theirs, rel=0.02, abs=1e-3)


@pytest.mark.parametrize("layer", [{}, {"lora": {"rank": 8, "alpha": 8}}], ids=["all", "lora"])
def test_bfloat16_learns(layer, tiny, tmp_path):
    """The tokens that the engine drew are, to the trainer, about as likely."""
    trainer(tmp_path / "run", SMALL, {"model": str(tiny), "update": {"precision": "bfloat16"}}, layer).run()
    for line in lines(tmp_path / "run"):
        assert 0 < line["grad_norm"] < float("inf")
        assert line["skipped_steps"] == 0


class Squeeze(Callback):
    """Leaves the process almost none of the GPU after the rollout of an iteration."""

    def __init__(self, at):
        self.at = at

    def on_rollout_end(self, trainer, iteration, trajectories):
        if iteration == self.at:
            torch.cuda.empty_cache()
            held = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(held)


def test_an_update_that_does_not_fit_leaves_a_run_that_can_be_resumed(cuda, tiny, tmp_path):
    layer = {"iterations": 3, "update": {"max_tokens_per_micro_batch": 100_000}, "save_every": 1}
    big = {"rollout": {"prompts_per_iteration": 16, "group_size": 16}}
    folder, own = tmp_path / "run", {"model": str(tiny)}
    try:
        with pytest.raises(OutOfMemoryError, match="out of memory in"):
            trainer(folder, SMALL, own, big, layer, callbacks=[Squeeze(2)]).run()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert latest(folder / "checkpoints").name == "000001"
    trainer(folder, SMALL, own, big, layer).run()
    assert [line["iteration"] for line in lines(folder)] == [1, 2, 3]


def test_an_update_takes_what_was_planned(device, tmp_path):
    """Of the starter, whose passes are the larger part; what libraries hold is not counted."""
    planning = pytest.importorskip("ragen_agents.starpo.memory.planning")
    rows = {"prompts_per_iteration": 4, "group_size": 16, "max_tokens": 64}
    tokens = {"max_tokens_per_micro_batch": 16_384 if device.type == "cuda" else 2048}
    one = trainer(tmp_path / "run", SMALL, {"rollout": rows, "update": tokens, "iterations": 1})
    sizes = planning.Sizes(one.config, lambda: make(one.config.game), download=False)
    phases = sizes.on(planning.this_device())(one.config).phases
    planned = max(
        sum(parts.values()) - parts.get("reserve", 0) for parts in (phases["scores"], phases["update"])
    )
    assert planned > 2**20
    if device.type == "cuda":
        gc.collect()  # what other tests have left
        torch.cuda.reset_peak_memory_stats()
        one.run()
        peak = torch.cuda.max_memory_allocated() - WORKSPACES
        assert 0.4 < peak / planned < 1.1
    one.close()


def test_layers_that_are_computed_again_need_less_and_learn_the_same(device, starter_rows):
    """Peak memory of a forward and a backward pass, above what was held before."""
    peaks, gradients = [], []
    for again in (False, True):
        peak, gradient = starter_rows(again)
        peaks.append(peak)
        gradients.append(gradient)
    assert gradients[1] == pytest.approx(gradients[0], rel=1e-3)
    if device.type == "cuda":
        assert peaks[1] < 0.8 * peaks[0]


@pytest.fixture
def starter_rows(device, starter):
    """A pass over long rows of the starter; returns its peak of memory in bytes and the gradient's norm."""
    from ragen_agents.starpo.update.models import ActorCritic
    from ragen_agents.starpo.update.passes import recompute_layers

    size = (16, 1024) if device.type == "cuda" else (2, 96)
    ids = torch.randint(10, 200, size, generator=torch.Generator().manual_seed(0)).to(device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False

    def measure(again):
        models = ActorCritic(starter.to(device), None, 1.0)
        if again:
            recompute_layers(models)
        models.zero_grad()
        before = 0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        models(ids, mask | True, mask, size[1] // 2).logprobs.sum().backward()
        peak = torch.cuda.max_memory_allocated() - before if device.type == "cuda" else 0
        return peak, float(torch.nn.utils.get_total_norm([p.grad for p in models.policy_parameters()]))

    return measure
