"""Bytes that a pass through a model takes beside its weights.

Counted are the tensors that PyTorch keeps for the backward pass, and the temporary ones where they are most.
Attention stores no scores of tokens times tokens: the fused kernels of PyTorch, on the CPU and on CUDA, keep
queries, keys, values, their result and the mask as numbers.
"""

from dataclasses import dataclass, replace
from typing import Final

from ragen_agents.starpo.memory.model_shape import ModelShape

FLOAT32: Final = 4
"""Bytes of a number."""
_LOGIT_COPIES = 3
"""Tensors as large as the logits that are alive at once in the backward pass of the output head."""
_SCORE_COPIES = 3
"""The same where nothing is learned."""


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
    """Of the adapters; 0 where all weights learn."""
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


def layer_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes that one layer keeps for its backward pass."""
    if arithmetic.tree or arithmetic.packed:
        return tree_layer_activations(shape, arithmetic, size)
    wide = shape.query_width
    numbers = _norms(shape, arithmetic) + _linear_inputs(shape, arithmetic) + 2 * wide * arithmetic.product
    numbers += 3 * shape.intermediate * arithmetic.product
    keys = 2 * wide * arithmetic.product
    return size.tokens * numbers + size.key_tokens * keys + size.pairs * arithmetic.product


def _norms(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes a token that the norms of a layer keep: their input, and it normed if they learn."""
    learned = 0 if arithmetic.rank else arithmetic.state
    norm = FLOAT32 + learned
    total = shape.norms * shape.hidden * norm
    if shape.head_norms:
        total += (shape.query_width + shape.key_width) * norm
    return total


def _linear_inputs(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes a token that linear layers keep of what they read, attention's result apart."""
    if not arithmetic.bfloat16:
        adapters = 7 * arithmetic.rank
        return FLOAT32 * (2 * shape.hidden + shape.intermediate + adapters)
    # Autocast rounds the input of each linear layer by itself: three times for queries, keys and values.
    rounded = 5 * shape.hidden
    if arithmetic.rank:
        return 2 * (rounded + shape.query_width + shape.intermediate + 7 * arithmetic.rank)
    return 2 * (rounded + shape.intermediate)


def trunk_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes that a pass below the head keeps for its backward pass, copies of weights included."""
    states = size.tokens * shape.hidden
    learned = size.rows * size.after * shape.hidden
    ends = 2 * states * FLOAT32 + learned * arithmetic.state
    if arithmetic.recomputed:
        beginnings = size.prompts * size.before * 2 * shape.key_width * arithmetic.product
        kept = states * arithmetic.state + (0 if arithmetic.packed else beginnings)
        return ends + shape.layers * kept
    return ends + shape.layers * layer_activations(shape, arithmetic, size) + _cast_weights(shape, arithmetic)


def _cast_weights(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes of the bfloat16 copies of weights that learn, which autocast makes for each pass.

    Where weights are split, prompts and what follows have copies of their own.
    """
    if not arithmetic.bfloat16:
        return 0
    copies = 2 if arithmetic.split else 1
    return 2 * copies * (arithmetic.rank * shape.adapter_width or shape.linear_parameters)


def trunk_backward(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the most that the backward pass below the output head needs, with all that was kept."""
    tied = FLOAT32 * shape.vocab_size * shape.hidden if shape.tied and not arithmetic.rank else 0
    return _layer_backward(shape, arithmetic, size) + trunk_activations(shape, arithmetic, size) + tied


def _layer_backward(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes of a layer's backward pass beside those kept."""
    if arithmetic.tree:
        return tree_layer_backward(shape, size)
    # Rows are differentiated before their prompts, a packed tree all at once.
    learned = size.tokens if arithmetic.packed else size.rows * size.after
    total = learned * (shape.intermediate * arithmetic.product + 2 * shape.hidden * arithmetic.state)
    if not arithmetic.rank:
        total += shape.hidden * shape.intermediate * (FLOAT32 + arithmetic.product)
    if arithmetic.packed:
        total = max(total, packed_attention_backward(shape, size))
    if arithmetic.recomputed:
        again = size if arithmetic.packed else replace(size, prompts=0)
        total += layer_activations(shape, arithmetic, again)
        total += _cast_weights(shape, arithmetic) // shape.layers
    if arithmetic.rank and arithmetic.bfloat16:  # adapters read in float32
        total += learned * shape.intermediate * FLOAT32
    return total


def head_backward(shape: ModelShape, arithmetic: Arithmetic, tokens: int) -> int:
    """Return the bytes of the logits of some tokens and the gradient of the output head."""
    logits = tokens * shape.vocab_size * FLOAT32
    gradient = 0 if arithmetic.rank else shape.vocab_size * shape.hidden * FLOAT32
    return _head_copy(shape, arithmetic) + max(_LOGIT_COPIES * logits, 2 * logits + gradient)


def _head_copy(shape: ModelShape, arithmetic: Arithmetic) -> int:
    weights = shape.vocab_size * shape.hidden
    if arithmetic.float32_head:
        return FLOAT32 * weights if arithmetic.state == 2 else 0
    return 2 * weights if arithmetic.casts_weights else 0


def learning_pass(shape: ModelShape, arithmetic: Arithmetic, size: PassSize, chunk: int) -> tuple[int, int]:
    """Return the most bytes of a forward and backward pass: activations, and logits.

    Args:
        shape: The model's.
        arithmetic: Of the pass.
        size: What is passed.
        chunk: Action tokens whose logits exist at the same time.
    """
    kept = trunk_activations(shape, arithmetic, size)
    head = head_backward(shape, arithmetic, min(chunk, size.rows * size.after))
    trunk = trunk_backward(shape, arithmetic, size)
    return (kept, head) if kept + head > trunk else (trunk, 0)


def scoring_pass(shape: ModelShape, arithmetic: Arithmetic, size: PassSize, chunk: int) -> tuple[int, int]:
    """Return the same for a pass from which nothing is learned."""
    logits = min(chunk, size.rows * size.after) * shape.vocab_size * FLOAT32
    states = size.rows * (size.before + size.after) * shape.hidden * FLOAT32
    beginnings = shape.layers * size.prompts * size.before * 2 * shape.key_width * arithmetic.product
    layer = _forward(shape, arithmetic, max(size.prompts * size.before, size.rows * size.after))
    head = _head_copy(shape, arithmetic) + _SCORE_COPIES * logits
    return 2 * states + _cast_weights(shape, arithmetic) + beginnings + max(0, layer - head), head


def generating_pass(shape: ModelShape, arithmetic: Arithmetic, tokens: int) -> int:
    """Return the bytes of reading prompts beside keys and values, casts of weights included."""
    head = 2 * shape.vocab_size * shape.hidden if arithmetic.casts_weights else 0
    return _cast_weights(shape, arithmetic) + head + _forward(shape, arithmetic, tokens)


def _forward(shape: ModelShape, arithmetic: Arithmetic, tokens: int) -> int:
    """Return the temporary tensors of a layer that keeps nothing."""
    wide = (4 if arithmetic.rank else 3) * shape.intermediate
    return tokens * (2 * shape.hidden * arithmetic.state + wide * arithmetic.product)


def tree_layer_activations(shape: ModelShape, arithmetic: Arithmetic, size: PassSize) -> int:
    """Return the bytes that one layer keeps for its backward pass."""
    numbers = 2 * shape.hidden * arithmetic.state + _tree_linear_inputs(shape, arithmetic)
    numbers += 3 * shape.intermediate * arithmetic.product
    if shape.head_norms:
        numbers += (shape.query_width + shape.key_width) * arithmetic.product
    if (
        arithmetic.packed
    ):  # what is attended to is what the next layer reads, and paths have keys of their own
        numbers += shape.query_width * arithmetic.product
        return size.tokens * numbers + size.key_tokens * 2 * shape.key_width * arithmetic.product
    return size.tokens * (numbers + (2 * shape.query_width + 2 * shape.key_width) * FLOAT32)


def _tree_linear_inputs(shape: ModelShape, arithmetic: Arithmetic) -> int:
    """Return the bytes a token that linear layers keep of what they read."""
    if not arithmetic.bfloat16:
        return FLOAT32 * (2 * shape.hidden + shape.intermediate + 7 * arithmetic.rank)
    # Autocast rounds the input of each linear layer by itself: three times for queries, keys and values.
    rounded = 5 * shape.hidden + shape.query_width + shape.intermediate
    return 2 * (rounded + 7 * arithmetic.rank)


def tree_layer_backward(shape: ModelShape, size: PassSize) -> int:
    """Return the bytes of a layer's backward pass beside those kept: for attention, or what follows it."""
    rows = size.rows * size.after
    paths = rows + size.rows * size.before
    attention = 4 * paths * shape.key_width + 6 * rows * shape.query_width
    forward = 3 * size.tokens * shape.intermediate
    return FLOAT32 * max(attention, forward)


def packed_attention_backward(shape: ModelShape, size: PassSize) -> int:
    """Return the bytes of the kernel of CUDA: sums for queries, and bfloat16 for each head of each path."""
    queries = size.tokens * shape.query_width * (FLOAT32 + 2 * 2)
    return queries + size.key_tokens * (2 * shape.query_width * 2 + 2 * shape.key_width * FLOAT32)
