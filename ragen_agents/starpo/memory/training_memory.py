"""Plan the memory of a training run on each of its devices, phase by phase."""

from dataclasses import dataclass
from typing import Final

from ragen_agents.engines.cpu.decoding import READ_TOGETHER
from ragen_agents.engines.cpu.tree_pass import has_kernel
from ragen_agents.engines.vllm.memory import MemoryNeeds
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.memory.model_shape import ModelShape
from ragen_agents.starpo.memory.pass_memory import (
    FLOAT32,
    Arithmetic,
    PassSize,
    generating_pass,
    learning_pass,
    scoring_pass,
)
from ragen_agents.starpo.update.models import LOGIT_CHUNK

GIB: Final = 2**30
PHASES: Final = ("rollout", "scores", "update", "step")
"""Of an iteration: replies are generated, scored, learned from; the last is an optimizer step."""
COMPONENTS: Final = (
    "policy", "critic", "reference", "gradients", "optimizer", "activations", "logits", "KV cache", "vLLM",
    "reserve",
)  # fmt: skip
_CACHE_COPIES: Final = 1.6
"""Most keys and values of the transformers engine, in times those of all conversations at full length: what
a turn begins with is copied while buffers grow. Measured on a CPU: 0.7 to 1.6."""
_SAMPLING_COPIES: Final = 4
"""Bytes of sampling's temporary tensors, in times those of the logits of one token a row in float32."""
_SLEEPING: Final = GIB
"""Bytes that vLLM keeps on a GPU while it sleeps: CUDA graphs and workspaces; an estimate."""


@dataclass(frozen=True)
class Device:
    """Device of one process of the run."""

    memory: int
    """All bytes of it, whether or not others use some."""
    is_cuda: bool

    @property
    def reserve(self) -> int:
        """Bytes for the libraries, the CUDA context and fragmentation; an estimate."""
        return GIB // 2 + self.memory // 25 if self.is_cuda else GIB


@dataclass(frozen=True)
class Conversations:
    """Lengths of the game's conversations in tokens."""

    prompt: int
    """Of the first prompt."""
    whole: int
    """Of the longest row of a conversation, prompts and replies together."""
    rows: int = 1
    """Rows of a conversation that the model passes apart, because it does not see all that went before."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on one device, by phase and component."""

    device: Device
    phases: dict[str, dict[str, int]]
    least: dict[str, int]
    """Bytes that each phase needs at least. While replies are generated this counts the smallest cache that
    vLLM starts with, or with the transformers engine no keys and values but the prompts'."""
    devices: int = 1
    """Number of processes, with a device each."""

    def total(self, phase: str) -> int:
        """Return all bytes of a phase."""
        return sum(self.phases[phase].values())

    @property
    def worst(self) -> str:
        """The phase that needs most."""
        return max(PHASES, key=self.least.__getitem__)

    @property
    def fits(self) -> bool:
        """Whether no phase certainly needs more than the device has."""
        return self.least[self.worst] <= self.device.memory

    @property
    def always_fits(self) -> bool:
        """Whether it also fits if all replies are as long as they may be."""
        return all(self.total(phase) <= self.device.memory for phase in PHASES)


def plan_memory(
    config: TrainConfig,
    shape: ModelShape,
    conversations: Conversations,
    device: Device,
    *,
    devices: int = 1,
    vllm: MemoryNeeds | None = None,
    own_engine: bool = False,
) -> MemoryPlan:
    """Return the memory of a run on each device."""
    # A policy that is split is whole in each process that generates; servers have copies of their own.
    has_copy = own_engine or config.engine != "vllm-server"
    held = {**_state(config, shape, devices, has_copy), "reserve": device.reserve}
    sleeping = 0
    if vllm is not None:
        sleeping = _SLEEPING if device.is_cuda else vllm.weights + vllm.working + vllm.least_cache
    passed = {**held, "vLLM": sleeping}
    gradients = held["optimizer"] // 2
    arithmetic = arithmetic_of(config, shape, device, devices)
    size = largest_pass(config, conversations, config.episodes)
    activations, logits = scoring_pass(shape, arithmetic, size, LOGIT_CHUNK)
    scores = {**passed, "activations": activations, "logits": logits}
    size = largest_pass(config, conversations, config.update.mini_batch_size)
    activations, logits = learning_pass(shape, arithmetic, size, LOGIT_CHUNK)
    update = {**passed, "gradients": gradients, "activations": activations, "logits": logits}
    step = {**passed, "gradients": gradients, "activations": _step(shape, device)}
    if own_engine:
        rollout, least = held, sum(held.values())
    else:
        rollout, least = _rollout(config, shape, conversations, device, held, devices, vllm)
    phases = {"rollout": rollout, "scores": scores, "update": update, "step": step}
    totals = {name: sum(parts.values()) for name, parts in phases.items()}
    return MemoryPlan(device, phases, {**totals, "rollout": least}, devices)


def arithmetic_of(config: TrainConfig, shape: ModelShape, device: Device, devices: int = 1) -> Arithmetic:
    """Return the arithmetic of a run's passes."""
    split = config.fsdp and devices > 1
    bfloat16, recomputed = config.update.precision == "bfloat16", config.update.recomputes
    trees = shape.reads_trees and not split
    return Arithmetic(
        bfloat16=bfloat16,
        rank=0 if config.lora is None else config.lora.rank,
        recomputed=recomputed,
        float32_head=config.has_float32_head(device.is_cuda),
        tree=trees and not (device.is_cuda or recomputed) and has_kernel(),
        packed=trees and device.is_cuda and bfloat16,
        split=split,
    )


def largest_pass(config: TrainConfig, conversations: Conversations, most: int) -> PassSize:
    """Return the largest micro-batch of ``most`` trajectories: none is cut, however small the budget."""
    budget = config.update.micro_batch_tokens
    fitting = budget // (conversations.whole * conversations.rows)
    count = max(1, min(fitting, most))
    rows = count * conversations.rows
    alike = conversations.rows == 1
    return PassSize(
        rows=rows,
        prompts=min(count, config.rollout.prompts_per_iteration) if alike else rows,
        before=conversations.prompt,
        after=conversations.whole - conversations.prompt,
    )


def _state(config: TrainConfig, shape: ModelShape, devices: int, has_copy: bool) -> dict[str, int]:
    """Return the weights, and what the optimizers keep of them."""
    policy, critic, learned = _weights(config, shape)
    reference = 0
    if config.charges_divergence and config.lora is None:
        reference = FLOAT32 * shape.parameters
        if config.update.precision == "bfloat16":
            reference -= 2 * shape.linear_parameters
    held = {"policy": policy, "critic": critic, "reference": reference, "optimizer": 8 * learned}
    if not config.fsdp or devices == 1:
        return held
    shares = {name: -(-size // devices) for name, size in held.items()}
    # Whole weights: a copy that generates, and of what is split, a layer ahead and the embedding.
    layers = 2 * shape.linear_parameters // shape.layers + shape.vocab_size * shape.hidden
    return {**shares, "policy": shares["policy"] + policy * has_copy + FLOAT32 * layers}


def _weights(config: TrainConfig, shape: ModelShape) -> tuple[int, int, int]:
    """Return the bytes of policy and critic, and the number of weights that learn."""
    apart = config.has_critic and config.critic.kind == "separate"
    if config.lora is None:
        trunk = shape.trunk_parameters if apart else 0
        return FLOAT32 * shape.parameters, FLOAT32 * trunk, shape.parameters + trunk
    adapter = config.lora.rank * shape.adapter_width
    base = (2 if config.update.precision == "bfloat16" else FLOAT32) * shape.parameters
    return base + FLOAT32 * adapter, FLOAT32 * adapter * apart, adapter * (1 + apart)


def _step(shape: ModelShape, device: Device) -> int:
    """Return the temporary tensors of an optimizer step, which is one kernel on a GPU."""
    return 0 if device.is_cuda else FLOAT32 * max(shape.vocab_size, shape.intermediate) * shape.hidden


def _rollout(
    config: TrainConfig, shape: ModelShape, conversations: Conversations, device: Device,
    held: dict[str, int], devices: int, vllm: MemoryNeeds | None,
) -> tuple[dict[str, int], int]:  # fmt: skip
    """Return the most and the least bytes of generating."""
    parts = dict(held)
    if config.engine == "transformers":
        evaluated = config.evaluation.episodes if config.evaluation.every else 0
        rows = -(-max(config.episodes, evaluated) // devices)
        arithmetic = arithmetic_of(config, shape, device, devices)
        token = 2 * shape.layers * shape.key_width * arithmetic.product
        read = min(rows * conversations.prompt, READ_TOGETHER[not device.is_cuda])
        parts["activations"] = generating_pass(shape, arithmetic, read)
        parts["logits"] = _SAMPLING_COPIES * rows * shape.vocab_size * FLOAT32
        least = sum(parts.values()) + rows * conversations.prompt * token
        parts["KV cache"] = int(_CACHE_COPIES * rows * conversations.whole * token)
        return parts, least
    if vllm is None:
        return parts, sum(parts.values())
    parts["vLLM"] = vllm.weights + vllm.working
    free = device.memory - sum(parts.values())
    given = None if config.vllm.cache_gib is None else int(config.vllm.cache_gib * GIB)
    least = sum(parts.values()) + (given or vllm.least_cache)
    parts["KV cache"] = given or max(vllm.least_cache, min(vllm.wanted_cache, free))
    return parts, least
