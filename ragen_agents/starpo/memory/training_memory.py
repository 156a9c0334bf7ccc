"""Plan the memory of a training run on each of its devices, phase by phase.

Passes through a model count the tensors that PyTorch keeps for the backward pass, and the temporary ones
where they are most. Attention stores no scores of tokens times tokens: the fused kernels of PyTorch, on the
CPU and on CUDA, keep queries, keys, values, their result and the mask as numbers.
"""

from dataclasses import dataclass, replace
from typing import Final

from ragen_agents.engines.cpu.decoding import tokens_read_together
from ragen_agents.engines.cpu.tree_pass import has_kernel
from ragen_agents.engines.vllm.memory import MemoryNeeds
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.memory.model_shape import ModelShape
from ragen_agents.starpo.update.output_head import LOGIT_CHUNK

GIB: Final = 2**30
PHASES: Final = ("rollout", "scores", "update", "step")
"""Phases of an iteration: replies are generated, scored, learned from; the last is an optimizer step."""
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
FLOAT32: Final = 4
"""Bytes of a number."""
_LOGIT_COPIES = 3
"""Tensors as large as the logits that are alive at once in the backward pass of the output head."""
_SCORE_COPIES = 3
"""Such tensors in a pass from which nothing is learned."""


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
    """Tokens of the first prompt."""
    whole: int
    """Tokens of the longest row of a conversation, prompts and replies together."""
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


@dataclass(frozen=True)
class PassSize:
    """The rows that are passed at once."""

    rows: int
    prompts: int
    """Different prompts; rows with equal ones share the pass over it."""
    before: int
    """Tokens of a prompt."""
    after: int
    """Tokens that follow it on a row."""

    @property
    def tokens(self) -> int:
        """Tokens that are computed."""
        return self.prompts * self.before + self.rows * self.after

    @property
    def key_tokens(self) -> int:
        """Tokens whose keys and values attention reads."""
        return self.prompts * self.before + self.rows * (self.before + self.after)

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key in the attention masks."""
        return self.prompts * self.before**2 + self.rows * self.after * (self.before + self.after)


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic of a pass."""

    bfloat16: bool
    """Whether products are in bfloat16 (autocast)."""
    rank: int = 0
    """Rank of the adapters; 0 where all weights learn."""
    recomputed: bool = False
    """Whether layers keep only their input for the backward pass."""
    float32_head: bool = False
    """Whether logits are computed in float32 although products are in bfloat16."""
    tree: bool = False
    """Whether tokens are passed as a tree with the attention of a CPU."""
    packed: bool = False
    """Whether tokens are passed as a tree with the attention of CUDA, in bfloat16."""
    split: bool = False
    """Whether weights are split over processes."""

    @property
    def product(self) -> int:
        """Bytes of a number in products."""
        return 2 if self.bfloat16 else FLOAT32

    @property
    def state(self) -> int:
        """Bytes of a number in the states between layers; frozen weights in bfloat16 leave them so."""
        return 2 if self.bfloat16 and self.rank else FLOAT32

    @property
    def casts_weights(self) -> bool:
        """Whether autocast makes a bfloat16 copy of float32 weights that learn."""
        return self.bfloat16 and not self.rank


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
    activations, logits = _scoring_pass(shape, arithmetic, size)
    scores = {**passed, "activations": activations, "logits": logits}
    size = largest_pass(config, conversations, config.update.mini_batch_size)
    activations, logits = _learning_pass(shape, arithmetic, size)
    update = {**passed, "gradients": gradients, "activations": activations, "logits": logits}
    # An optimizer step has temporary tensors, but is one kernel on a GPU.
    temporary = 0 if device.is_cuda else FLOAT32 * max(shape.vocab_size, shape.intermediate) * shape.hidden
    step = {**passed, "gradients": gradients, "activations": temporary}
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


def _rollout(
    config: TrainConfig, shape: ModelShape, conversations: Conversations, device: Device,
    held: dict[str, int], devices: int, vllm: MemoryNeeds | None,
) -> tuple[dict[str, int], int]:  # fmt: skip
    """Return the most and the least bytes of generating."""
    parts = dict(held)
    if config.engine == "transformers":
        rows = -(-config.most_episodes // devices)
        arithmetic = arithmetic_of(config, shape, device, devices)
        token = 2 * shape.layers * shape.key_width * arithmetic.product
        read = min(rows * conversations.prompt, tokens_read_together(device.is_cuda))
        # Prompts are read beside keys and values, with casts of the weights.
        head = 2 * shape.vocab_size * shape.hidden if arithmetic.casts_weights else 0
        parts["activations"] = _cast_weights(shape, arithmetic) + head + _forward(shape, arithmetic, read)
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


def _layer_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes that one layer keeps for its backward pass."""
    if arithmetic.tree or arithmetic.packed:
        return _tree_layer_activations(shape, arithmetic, size)
    keys = 2 * shape.query_width * arithmetic.product
    # Norms keep their input, and it normed if they learn.
    normed = shape.norms * shape.hidden + shape.head_norms * (shape.query_width + shape.key_width)
    numbers = normed * (FLOAT32 + (0 if arithmetic.rank else arithmetic.state))
    numbers += _linear_inputs(shape, arithmetic) + keys + 3 * shape.intermediate * arithmetic.product
    return size.tokens * numbers + size.key_tokens * keys + size.pairs * arithmetic.product


def _linear_inputs(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes a token that linear layers keep of what they read."""
    adapters = 7 * arithmetic.rank
    if not arithmetic.bfloat16:
        return FLOAT32 * (2 * shape.hidden + shape.intermediate + adapters)
    # Autocast rounds the input of each linear layer by itself: three times for queries, keys and values.
    rounded = 5 * shape.hidden + shape.intermediate + adapters
    if arithmetic.rank or arithmetic.tree or arithmetic.packed:  # else attention keeps its result itself
        rounded += shape.query_width
    return 2 * rounded


def _trunk_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes that a pass below the head keeps for its backward pass, copies of weights included."""
    states = size.tokens * shape.hidden
    learned = size.rows * size.after * shape.hidden
    ends = 2 * states * FLOAT32 + learned * arithmetic.state
    if arithmetic.recomputed:
        beginnings = size.prompts * size.before * 2 * shape.key_width * arithmetic.product
        kept = states * arithmetic.state + (0 if arithmetic.packed else beginnings)
        return ends + shape.layers * kept
    return (
        ends + shape.layers * _layer_activations(shape, arithmetic, size) + _cast_weights(shape, arithmetic)
    )


def _cast_weights(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes of the bfloat16 copies of weights that learn, which autocast makes for each pass.

    Where weights are split, prompts and what follows have copies of their own.
    """
    if not arithmetic.bfloat16:
        return 0
    copies = 2 if arithmetic.split else 1
    return 2 * copies * (arithmetic.rank * shape.adapter_width or shape.linear_parameters)


def _layer_backward(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes of a layer's backward pass beside those kept."""
    if arithmetic.tree:  # of attention, or of what follows it
        rows, paths = size.rows * size.after, size.rows * (size.before + size.after)
        attention = 4 * paths * shape.key_width + 6 * rows * shape.query_width
        return FLOAT32 * max(attention, 3 * size.tokens * shape.intermediate)
    # Rows are differentiated before their prompts, a packed tree all at once.
    learned = size.tokens if arithmetic.packed else size.rows * size.after
    total = learned * (shape.intermediate * arithmetic.product + 2 * shape.hidden * arithmetic.state)
    if not arithmetic.rank:
        total += shape.hidden * shape.intermediate * (FLOAT32 + arithmetic.product)
    if arithmetic.packed:
        # The kernel of CUDA has sums for queries, and bfloat16 for each head of each path.
        queries = size.tokens * shape.query_width * (FLOAT32 + 2 * 2)
        paths = size.key_tokens * (2 * shape.query_width * 2 + 2 * shape.key_width * FLOAT32)
        total = max(total, queries + paths)
    if arithmetic.recomputed:
        again = size if arithmetic.packed else replace(size, prompts=0)
        total += _layer_activations(shape, arithmetic, again)
        total += _cast_weights(shape, arithmetic) // shape.layers
    if arithmetic.rank and arithmetic.bfloat16:  # adapters read in float32
        total += learned * shape.intermediate * FLOAT32
    return total


def _head_copy(shape: ModelShape, arithmetic: Arithmetic) -> int:
    weights = shape.vocab_size * shape.hidden
    if arithmetic.float32_head:
        return FLOAT32 * weights if arithmetic.state == 2 else 0
    return 2 * weights if arithmetic.casts_weights else 0


def _learning_pass(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> tuple[int, int]:
    """Return the most bytes of a forward and backward pass: activations, and logits."""
    kept = _trunk_activations(shape, arithmetic, size)
    logits = min(LOGIT_CHUNK, size.rows * size.after) * shape.vocab_size * FLOAT32
    gradient = 0 if arithmetic.rank else shape.vocab_size * shape.hidden * FLOAT32
    head = _head_copy(shape, arithmetic) + max(_LOGIT_COPIES * logits, 2 * logits + gradient)
    trunk = kept + _layer_backward(shape, arithmetic, size) + (gradient if shape.tied else 0)
    return (kept, head) if kept + head > trunk else (trunk, 0)


def _scoring_pass(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> tuple[int, int]:
    """Return the same for a pass from which nothing is learned."""
    logits = min(LOGIT_CHUNK, size.rows * size.after) * shape.vocab_size * FLOAT32
    states = size.rows * (size.before + size.after) * shape.hidden * FLOAT32
    beginnings = shape.layers * size.prompts * size.before * 2 * shape.key_width * arithmetic.product
    layer = _forward(shape, arithmetic, max(size.prompts * size.before, size.rows * size.after))
    head = _head_copy(shape, arithmetic) + _SCORE_COPIES * logits
    return 2 * states + _cast_weights(shape, arithmetic) + beginnings + max(0, layer - head), head


def _forward(shape: ModelShape, arithmetic: Arithmetic, tokens: int) -> int:
    """Return the temporary tensors of a layer that keeps nothing."""
    wide = (4 if arithmetic.rank else 3) * shape.intermediate
    return tokens * (2 * shape.hidden * arithmetic.state + wide * arithmetic.product)


def _tree_layer_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    numbers = 2 * shape.hidden * arithmetic.state + _linear_inputs(shape, arithmetic)
    numbers += 3 * shape.intermediate * arithmetic.product
    if shape.head_norms:
        numbers += (shape.query_width + shape.key_width) * arithmetic.product
    if arithmetic.packed:
        # What is attended to is what the next layer reads, and paths have keys of their own.
        numbers += shape.query_width * arithmetic.product
        return size.tokens * numbers + size.key_tokens * 2 * shape.key_width * arithmetic.product
    return size.tokens * (numbers + (2 * shape.query_width + 2 * shape.key_width) * FLOAT32)
