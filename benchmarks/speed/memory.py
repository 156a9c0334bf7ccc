"""Memory of an update: planned as ``ragen train --plan`` does, and measured on the CPU.

    python benchmarks/speed/memory.py

Models with random weights learn from random tokens. PyTorch's profiler reports every allocation of a tensor,
those inside kernels included; the most bytes that are alive at once are compared with the plan. The last row
compares the resident memory of a process of its own. Settings are measured one after the other.
"""

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from accelerate import Accelerator
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Qwen3Config

from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_agents.starpo import TrainConfig, merged
from ragen_agents.starpo.memory.model_shape import shape_of
from ragen_agents.starpo.memory.training_memory import (
    GIB,
    Conversations,
    Device,
    MemoryPlan,
    plan_memory,
)
from ragen_agents.starpo.setup import frozen_reference
from ragen_agents.starpo.update import passes
from ragen_agents.starpo.update.adapters import with_adapters
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner
from ragen_agents.starter import STARTER

MIB: Final = 2**20
GROUPS: Final = 4
MEMBERS: Final = 2
_ROWS: Final = 4
"""Trajectories of a micro-batch; two of them make an optimizer step."""
BASE: Final[dict[str, Any]] = {
    "rollout": {"prompts_per_iteration": 2, "group_size": 4},
    "update": {"mini_batch_size": 2 * _ROWS},
    "evaluation": {"every": 0},
}


class Case(NamedTuple):
    """What is measured."""

    model: Any
    """A transformers config."""
    settings: dict[str, Any]
    """Of the run, over ``BASE``."""
    prompt: int
    """Tokens of the first prompt of a trajectory."""
    reply: int
    """Tokens of the reply to it."""
    tree: bool = True
    """Whether tokens are passed as a tree; False for the passes that are made on a GPU."""

    @property
    def config(self) -> TrainConfig:
        """The run's config."""
        tokens = {"max_tokens_per_micro_batch": _ROWS * (self.prompt + self.reply)}
        return TrainConfig(**merged(BASE, {"update": tokens}, self.settings))


class Peaks(NamedTuple):
    """Most bytes of tensors, weights and moments included."""

    scores: int
    update: int


def planned(case: Case) -> MemoryPlan:
    """Return the plan of a case, with nothing for the libraries."""
    lengths = Conversations(case.prompt, case.prompt + case.reply)
    shape = shape_of(case.model)
    if not case.tree:
        shape = replace(shape, reads_trees=False)
    plan = plan_memory(case.config, shape, lengths, Device(64 * GIB, False), own_engine=True)
    return replace(plan, phases={name: {**parts, "reserve": 0} for name, parts in plan.phases.items()})


def planned_peaks(case: Case) -> Peaks:
    """Return the peaks that the plan of a case expects."""
    plan = planned(case)
    return Peaks(plan.total("scores"), max(plan.total("update"), plan.total("step")))


def measured_peaks(case: Case) -> Peaks:
    """Score and learn from random trajectories twice, and return the peaks of the second time."""
    learner = _learner(case)
    batch = TrainBatch.of(_trajectories(case), 0)
    with nullcontext() if case.tree else patch.object(passes, "reads_trees", lambda _: False):
        prepared = learner.prepare(batch)
        learner.update(prepared, 0)
        held = _held(learner)
        scores = growth(lambda: learner.prepare(batch))
        return Peaks(held + scores, held + growth(lambda: learner.update(prepared, 0)))


def growth(action: Callable[[], object]) -> int:
    """Return by how many bytes the tensors of the CPU grow at most while something runs."""
    gc.collect()  # what is garbage already is not freed meanwhile
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        action()
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def _learner(case: Case) -> Learner:
    config = case.config
    torch.manual_seed(0)
    policy = AutoModelForCausalLM.from_config(case.model).eval()
    if config.lora is not None:
        policy = policy.to(getattr(torch, config.update.precision))
        policy = with_adapters(policy, config.lora.rank, config.lora.alpha, 0)
    accelerator = Accelerator(cpu=True)
    reference = frozen_reference(config, policy, accelerator.device)
    return Learner(config, policy, reference, accelerator)


def _trajectories(case: Case) -> list[Trajectory]:
    draws = torch.Generator().manual_seed(0)

    def tokens(count: int) -> list[int]:
        drawn: list[int] = torch.randint(case.model.vocab_size, (count,), generator=draws).tolist()
        return drawn

    made = []
    for group in range(GROUPS):
        prompt = tokens(case.prompt)
        for member in range(MEMBERS):
            one = Trajectory(group, member, list(prompt))
            one.append_reply(tokens(case.reply), [-1.0] * case.reply)
            one.turns.append(TrajectoryTurn("", {"game": float(member)}, True, True, 1, False))
            made.append(one)
    return made


def _held(learner: Learner) -> int:
    """Return the bytes of weights, buffers and moments."""
    modules = [m for m in (learner.models, learner.reference) if m is not None]
    optimizers = learner.optimizers.values()
    tensors = [t for m in modules for t in (*m.parameters(), *m.buffers())]
    tensors += [t for o in optimizers for s in o.state.values() for t in s.values()]
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())


STARTER_SHAPE: Final = AutoConfig.from_pretrained(STARTER)
SMOLLM2: Final = LlamaConfig(
    vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True,
)  # fmt: skip
"""The shape of SmolLM2-135M."""
QWEN3: Final = Qwen3Config(
    vocab_size=20_000, hidden_size=320, intermediate_size=960, num_hidden_layers=8, head_dim=64,
    num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=False, max_position_embeddings=4096,
)  # fmt: skip
"""A small Qwen3 whose output head is not its embedding."""
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "critic": {"advantage": {"estimator": "gae"}},
    "critic, reference, bfloat16": {
        "loss": {"kl": "reward"},
        "update": {"precision": "bfloat16"},
    },
    "recomputed layers": {"update": {"gradient_checkpointing": True}},
    "critic, bfloat16, recomputed layers": {
        "update": {"precision": "bfloat16", "gradient_checkpointing": True},
    },
    "LoRA 16": {"lora": {"rank": 16, "alpha": 16}},
    "LoRA 16, critic, bfloat16": {
        "lora": {"rank": 16, "alpha": 16},
        "update": {"precision": "bfloat16"},
    },
    "LoRA 16, critic, bfloat16, recomputed layers": {
        "lora": {"rank": 16, "alpha": 16},
        "update": {"precision": "bfloat16", "gradient_checkpointing": True},
    },
}


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings of a row; without a critic advantages are those of GRPO."""
    estimator = "gae" if "critic" in name else "grpo"
    return merged({"advantage": {"estimator": estimator}}, SETTINGS[name])


def _rows() -> Iterator[str]:
    large = ("critic", "critic, bfloat16, recomputed layers", "LoRA 16, critic, bfloat16")
    measured = [
        *(("starter", STARTER_SHAPE, name, 120, 160, True) for name in SETTINGS),
        *(("starter", STARTER_SHAPE, name, 120, 160, False) for name in ("", large[0], large[2])),
        *(("Qwen3, 24 M weights", QWEN3, name, 40, 60, True) for name in ("", *large)),
        *(("Qwen3, 24 M weights", QWEN3, name, 40, 60, False) for name in ("", large[0], large[2])),
        *(("SmolLM2-135M", SMOLLM2, name, 40, 60, True) for name in large),
    ]
    for model, shape, name, prompt, reply, tree in measured:
        case = Case(shape, settings_of(name), prompt, reply, tree)
        plan, found = planned_peaks(case), measured_peaks(case)
        what = ", ".join(filter(None, [model, name, "" if tree else "passes of a GPU"]))
        yield _row(what, case.config.update.micro_batch_tokens, plan.update, found.update)
    case = _resident_case()
    printed = subprocess.run(
        [sys.executable, __file__, "--resident"], capture_output=True, text=True, check=True
    ).stdout
    tokens, plan = case.config.update.micro_batch_tokens, planned_peaks(case)
    yield _row("starter, critic, resident memory", tokens, plan.update, int(printed.split()[-1]))


def _row(what: str, tokens: int, plan: int, found: int) -> str:
    gap = 100 * plan / found - 100
    return f"| {what} | {tokens:,} | {plan / MIB:,.0f} | {found / MIB:,.0f} | {gap:+.0f}% |"


def _resident_case() -> Case:
    return Case(STARTER_SHAPE, settings_of("critic"), 520, 600)


def _print_resident() -> None:
    """Print by how many bytes the resident memory of this process grows once libraries are loaded."""
    case = _resident_case()
    _learner(case)
    before = _most_resident()
    learner = _learner(case)
    learner.update(learner.prepare(TrainBatch.of(_trajectories(case), 0)), 0)
    print(_most_resident() - before)


def _most_resident() -> int:
    """Return the most bytes of this process; ``ru_maxrss`` would count those of its parent, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def main() -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--resident", action="store_true", help="print the growth of one process")
    args = parser.parse_args()
    if args.resident:
        _print_resident()
        return
    print("| | tokens of a micro-batch | planned, MiB | measured, MiB | |\n|---|--:|--:|--:|--:|")
    for row in _rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
