"""Training in several processes: it learns what one process does."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from training_runs import (
    alone,
    assert_same_run,
    command,
    in_two_processes,
    lines,
    trainer,
    under_torchrun,
)

from ragen_agents.engines.base import EngineError
from ragen_agents.starpo import processes
from ragen_agents.starpo.callbacks import Callback
from ragen_agents.starpo.run.checkpoint import latest
from ragen_envs.errors import RagenError

FAST = ("update.learning_rate=1e-3", "update.critic_learning_rate=1e-3", "save_every=1")
"""Rates at which a step that is left out shows."""


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    """The run of one process."""
    out = tmp_path_factory.mktemp("whole") / "run"
    alone(command(tiny, out, *FAST, iterations=2))
    return out


def test_two_processes_learn_what_one_does(tiny, whole, tmp_path):
    under_torchrun(command(tiny, tmp_path / "run", *FAST, iterations=2))
    assert_same_run(whole, tmp_path / "run", 2)


PARTED = """
import os
import sys
import torch.distributed as dist
from ragen_bench.__main__ import main

assert main(sys.argv[1:]) == 0
print("together" if dist.is_initialized() else "parted", flush=True)
os._exit(0)  # as the command does: gloo's threads may outlive the group
"""


def test_processes_part_before_they_end(tiny, tmp_path):
    """A process that ends while gloo still holds a message of its group aborts now and then."""
    (tmp_path / "parted.py").write_text(PARTED)
    arguments = command(tiny, tmp_path / "run", "evaluation.every=0", iterations=1)
    said = in_two_processes([sys.executable, tmp_path / "parted.py", *arguments[3:]])
    assert re.findall("parted|together", said) == ["parted"] * 2


class Breaks(Callback):
    """Ends a run by an error of its own process."""

    def on_train_begin(self, trainer):
        raise OSError("a broken disk")


@pytest.mark.parametrize("callbacks", [[], [Breaks()]])
def test_a_process_that_fails_does_not_wait_for_the_others(callbacks, tiny, tmp_path, monkeypatch):
    """NCCL leaves a group only together, and the others may be in the middle of an operation."""
    one = trainer(tmp_path / "run", {"model": str(tiny), "iterations": 1}, callbacks=callbacks)
    left = []
    monkeypatch.setattr(one.accelerator, "end_training", lambda: left.append("group"))
    with pytest.raises(OSError, match="broken disk") if callbacks else nullcontext():
        one.run()
    one.close()
    assert left == ([] if callbacks else ["group"])


@pytest.mark.parametrize(("started_by", "ends"), [("torchrun", ""), ("a person", "taken apart\n")])
def test_python_is_not_taken_apart_under_threads_of_gloo(started_by, ends, tmp_path):
    """They outlive the group where a wrapped model refers to it, and then abort the process now and then."""
    (tmp_path / "sitecustomize.py").write_text("import atexit\natexit.register(print, 'taken apart')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if started_by == "torchrun":
        environment["TORCHELASTIC_RUN_ID"] = "1"
    command = [sys.executable, "-m", "ragen_bench", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert re.fullmatch(rf"ragen-suite [\d.]+\w*\n{ends}", done.stdout)


@pytest.mark.parametrize(
    "more",
    [
        ["--preset", "starpo-ppo"],
        ["--preset", "starpo-ppo", "lora.rank=4", "update.gradient_checkpointing=true"],
    ],
)
def test_processes_that_split_the_weights_learn_what_one_does(more, tiny, tmp_path):
    """Also where they go on from the checkpoint of one that had all weights, and it from theirs."""
    one, two = tmp_path / "one", tmp_path / "two"
    scored = tmp_path / "scored.py"  # in every iteration, as split weights need
    scored.write_text("from ragen_agents.starpo import trainer\n\ntrainer.SCORED_EVERY = 1\n")

    def scored_command(out, *arguments, iterations):
        made = command(tiny, out, *FAST, *more, *arguments, "evaluation.every=1", iterations=iterations)
        return [*made[:3], "--import", str(scored), *made[3:]]

    for iterations in (1, 3):
        alone(scored_command(one, iterations=iterations))
        if iterations == 1:
            shutil.copytree(one, two)
    in_two_processes(scored_command(two, "fsdp=true", iterations=2))
    alone(scored_command(two, iterations=3))
    assert_same_run(one, two, 3)


def test_split_weights_have_whole_gradients_in_bfloat16(tiny, tmp_path):
    """Where autocast shared its casts between two passes, FSDP reduced the gradients of one alone."""
    norms = []
    for splits in (False, True):
        out = tmp_path / str(splits)
        arguments = [
            "--preset", "starpo-grpo", "update.precision=bfloat16",
            "update.max_tokens_per_micro_batch=600", "loss.entropy_coef=0.1",
            f"fsdp={str(splits).lower()}",
        ]  # fmt: skip
        (in_two_processes if splits else alone)(command(tiny, out, *arguments, iterations=1))
        norms.append([line["grad_norm"] for line in lines(out) if "grad_norm" in line])
    assert len(norms[0]) == 1
    assert norms[1] == pytest.approx(norms[0], rel=0.05)


FULL = """
import os
import sys
import torch
from ragen_bench.__main__ import main
from ragen_agents.rollout.collect import Collector
from ragen_agents.starpo.update.learner import Learner

owner = {"collect": Collector, "_score_share": Learner, "_loss": Learner}[sys.argv[1]]
name, after = sys.argv[1], int(sys.argv[2])
real, calls = getattr(owner, name), []

def full(*arguments, **more):
    calls.append(name)
    if len(calls) > after:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return real(*arguments, **more)

if os.environ["RANK"] == "1":
    setattr(owner, name, full)
code = main(sys.argv[3:])
sys.stderr.flush()
os._exit(code)
"""


@pytest.mark.parametrize(
    ("place", "after", "phase", "advice"),
    [
        ("collect", 2, "rollout", "rollout.group_size"),
        ("_loss", 4, "update", "update.max_tokens_per_micro_batch"),
    ],
)
def test_memory_that_runs_out_in_one_process_ends_both_with_the_state_saved(
    place, after, phase, advice, tiny, whole, tmp_path
):
    """In the second iteration, long before a checkpoint is due."""
    (tmp_path / "full.py").write_text(FULL)
    out = tmp_path / "run"
    arguments = command(tiny, out, *FAST, "save_every=9", iterations=2)
    said = in_two_processes(
        [sys.executable, tmp_path / "full.py", place, str(after), *arguments[3:]], succeeds=False
    )
    told = f"error: out of memory in {phase}, the state is saved; lower {advice}"
    assert said.count(told) == 2, said
    assert latest(out / "checkpoints").name == "000001"
    if phase == "update":
        in_two_processes(arguments)
        assert_same_run(whole, out, 2)


NO_ROOM = """
import os
import sys
from ragen_bench.__main__ import main
from ragen_agents.starpo.run import checkpoint

real = checkpoint.save_file

def full(tensors, path):
    real(tensors, path)
    if path.parent.parent.name == ".000002.writing":
        raise OSError(28, "No space left on device")

if os.environ["RANK"] == "0":
    checkpoint.save_file = full
code = main(sys.argv[1:])
sys.stderr.flush()
os._exit(code)
"""


def test_a_checkpoint_that_cannot_be_written_ends_both_processes(tiny, tmp_path):
    """Only one writes; the other does not wait for it in vain."""
    (tmp_path / "full.py").write_text(NO_ROOM)
    out = tmp_path / "run"
    arguments = command(tiny, out, *FAST, "evaluation.every=0", iterations=2)
    said = in_two_processes([sys.executable, tmp_path / "full.py", *arguments[3:]], succeeds=False)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2, said
    assert all("cannot be written" in line for line in errors)
    assert latest(out / "checkpoints").name == "000001"


OLDER = """
import os
import sys
from ragen_bench.__main__ import main
from ragen_agents.starpo.run import checkpoint

real = checkpoint.complete
if os.environ["RANK"] == "1":
    checkpoint.complete = lambda folder: real(folder)[:-1]
code = main(sys.argv[1:])
sys.stderr.flush()
os._exit(code)
"""


def test_a_machine_that_sees_an_older_disk_does_not_resume_from_it(tiny, whole, tmp_path):
    """The processes would go on from different iterations, and learn nothing that makes sense."""
    (tmp_path / "older.py").write_text(OLDER)
    out = shutil.copytree(whole, tmp_path / "run")
    again = command(tiny, out, *FAST, iterations=3)
    said = in_two_processes([sys.executable, tmp_path / "older.py", *again[3:]], succeeds=False)
    assert said.count("error: the processes see different checkpoints in") == 2, said
    assert latest(out / "checkpoints").name == "000002"


HELD = """
import os
import sys
from pathlib import Path
from ragen_agents.starpo import PRESETS, TrainConfig, merged
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.run.checkpoint import load
from ragen_agents.starpo.rollout_step import training_groups
from ragen_agents.starpo.trainer import Trainer

own = {"model": sys.argv[1], "game": "ragen/BanditText-v0", "fsdp": True, "iterations": 1,
       "rollout": {"prompts_per_iteration": 2, "group_size": 2, "max_tokens": 8}, "evaluation": {"every": 0}}
trainer = Trainer(TrainConfig(**merged(PRESETS["starpo-ppo"], own)), sys.argv[2])
trainer.run()
learner = trainer.learner
batch = TrainBatch.of(trainer.collector.collect(training_groups(trainer.config, 0), 0), trainer.codec.pad)
learner.score(batch)  # without a backward pass behind it
load(Path(sys.argv[2], "checkpoints", "000001"), learner)
for parameters, optimizer in (
    (learner.models.policy_parameters(), learner.optimizer),
    (learner.models.critic_parameters(), learner.critic_optimizer),
):
    held = sum(p.to_local().numel() for p in parameters) / sum(p.numel() for p in parameters)
    moments = [optimizer.state[p]["exp_avg"] for p in parameters]
    kept = sum(m.to_local().numel() for m in moments) / sum(m.numel() for m in moments)
    print(f"held {held:.2f} {kept:.2f}", flush=True)
trainer.close()
os._exit(0)
"""


def test_each_process_holds_its_half_of_what_is_split(tiny, tmp_path):
    """Also right after a pass without gradients, when weights are loaded for a rollback."""
    (tmp_path / "held.py").write_text(HELD)
    (tmp_path / "run").mkdir()
    said = in_two_processes([sys.executable, tmp_path / "held.py", tiny, tmp_path / "run"])
    shares = [float(s) for pair in re.findall(r"held (\d\.\d\d) (\d\.\d\d)", said) for s in pair]
    assert shares == pytest.approx([0.5] * 8, abs=0.02)


@pytest.mark.parametrize("mine", [EngineError("no answer"), RagenError("a broken game"), None])
def test_processes_that_fail_in_different_ways_raise_the_same_error(mine, monkeypatch):
    every = [(2, "a broken game"), (0, "no answer")]
    monkeypatch.setattr(processes, "gather_object", lambda found: every)
    with pytest.raises(EngineError, match="no answer"):
        processes.agree(mine, SimpleNamespace(num_processes=2))
