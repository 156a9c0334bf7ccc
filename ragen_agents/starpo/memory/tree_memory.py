"""Bytes that a pass over a tree of tokens takes beside the weights; see `starpo.update.llama_pass`."""

from ragen_agents.starpo.memory.model_shape import ModelShape
from ragen_agents.starpo.memory.pass_size import FLOAT32, Arithmetic, PassSize


def layer_activations(shape: ModelShape, how: Arithmetic, size: PassSize) -> int:
    """Return what one layer keeps for its backward pass."""
    numbers = 2 * shape.hidden * how.state + _linear_inputs(shape, how)
    numbers += (2 * shape.query_width + 2 * shape.key_width) * FLOAT32
    numbers += 3 * shape.intermediate * how.product
    if shape.head_norms:
        numbers += (shape.query_width + shape.key_width) * how.product
    return size.tokens * numbers


def _linear_inputs(shape: ModelShape, how: Arithmetic) -> int:
    """Return the bytes a token that linear layers keep of what they read."""
    if not how.bfloat16:
        return FLOAT32 * (2 * shape.hidden + shape.intermediate + 7 * how.rank)
    # Autocast rounds the input of each linear layer by itself: three times for queries, keys and values.
    rounded = 5 * shape.hidden + shape.query_width + shape.intermediate
    return 2 * (rounded + 7 * how.rank)


def layer_backward(shape: ModelShape, size: PassSize) -> int:
    """Return what a layer's backward pass needs beside what was kept: for attention, or what follows it."""
    rows = size.rows * size.after
    paths = rows + size.rows * size.before
    attention = 4 * paths * shape.key_width + 6 * rows * shape.query_width
    forward = 3 * size.tokens * shape.intermediate
    return FLOAT32 * max(attention, forward)
