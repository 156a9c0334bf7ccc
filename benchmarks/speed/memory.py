"""Memory that an update takes, as planned and as measured.

    python benchmarks/speed/memory.py docs/performance.md

Models with random weights learn from trajectories of random tokens, on the CPU. The most bytes of tensors that
are alive at once are counted by PyTorch's profiler, which sees every allocation of a kernel too.
"""

from collections.abc import Callable

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_agents.starpo import TrainConfig, merged
from ragen_agents.starpo.setup import frozen_reference
from ragen_agents.starpo.update.batch import TrainBatch
from ragen_agents.starpo.update.learner import Learner
from ragen_agents.starpo.update.adapters import with_adapters


def peak_of(action: Callable[[], object]) -> int:
    """Return by how many bytes the CPU's tensors grew at most while something ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        action()
    now = most = 0
    for event in sorted(
        (e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"),
        key=lambda e: e.start_ns(),
    ):
        now += event.nbytes()
        most = max(most, now)
    return most


def trajectories(groups: int, members: int, prompt: int, reply: int, vocabulary: int) -> list[Trajectory]:
    """Return trajectories of one reply each, of random tokens."""
    draws = torch.Generator().manual_seed(0)

    def tokens(count: int) -> list[int]:
        return torch.randint(vocabulary, (count,), generator=draws).tolist()

    made = []
    for group in range(groups):
        first = tokens(prompt)
        for member in range(members):
            one = Trajectory(group, member, list(first))
            one.append_reply(tokens(reply), [-1.0] * reply, 0)
            one.turns.append(TrajectoryTurn("", {"game": float(member % 2)}, True, True, 1, False))
            made.append(one)
    return made


def learner_of(config: TrainConfig, shape) -> Learner:
    torch.manual_seed(0)
    policy = AutoModelForCausalLM.from_config(shape).eval()
    if config.lora is not None:
        policy = policy.to(getattr(torch, config.update.precision))
        policy = with_adapters(policy, config.lora.rank, config.lora.alpha, 0)
    AcceleratorState._reset_state(True)
    precision = "bf16" if config.update.precision == "bfloat16" else "no"
    accelerator = Accelerator(mixed_precision=precision, cpu=True)
    return Learner(config, policy, frozen_reference(config, policy), accelerator)


def bytes_of(learner: Learner) -> int:
    """Return the bytes of weights and moments"""
    held = {}
    modules = [m for m in (learner.models, learner.reference) if m is not None]
    tensors = [t for m in modules for t in (*m.parameters(), *m.buffers())]
    for optimizer in (learner.optimizer, learner.critic_optimizer):
        if optimizer is not None:
            tensors += [t for s in optimizer.state.values() for t in s.values() if torch.is_tensor(t)]
    for t in tensors:
        held[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
    return sum(held.values())


def measure(config, shape, groups, members, prompt, reply):
    learner = learner_of(config, shape)
    batch = TrainBatch.of(trajectories(groups, members, prompt, reply, shape.vocab_size), 0)
    prepared = learner.prepare(batch)
    learner.update(prepared, 0)
    static = bytes_of(learner)
    scores = peak_of(lambda: learner.prepare(batch))
    update = peak_of(lambda: learner.update(prepared, 0))
    return static, scores, update
