"""Attention for decoding that reads each cached key and value once, also those that all rows share.

Where several query heads share a key head (grouped-query attention, arXiv 2305.13245), transformers copies
the keys and values for each of them before a masked attention. A decoding step has one query a row, so its
heads can take the place of a sequence instead, and nothing is copied.

Rows that begin with the same tokens keep their keys and values once, and the queries of all rows meet them in
one matrix product (Hydragen, arXiv 2402.05099).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class Parted(NamedTuple):
    """Keys or values of rows that begin alike."""

    common: Tensor
    """(key heads, slots, head size), of the tokens that all rows begin with."""
    own: Tensor
    """(rows, key heads, slots, head size), of what follows on each row."""


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor | Parted,
    value: Tensor | Parted,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend as ``sdpa`` of transformers does, which it calls for all but steps of one query a row.

    Args:
        module: The layer.
        query: (rows, query heads, queries, head size).
        key: (rows, key heads, slots, head size); query heads are a multiple of the key heads. In parts where
            there is one query a row and rows begin alike.
        value: As ``key``.
        attention_mask: (rows, 1, queries, all slots), or None; other shapes are left to ``sdpa``.
        dropout: Chance that a weight is dropped.
        scaling: Of the products, by default the inverse root of the head size.
        kwargs: What else a layer passes to ``sdpa``.

    Returns:
        (rows, queries, query heads, head size), and no weights.
    """
    rows, heads, queries, size = query.shape
    if isinstance(key, Parted) and isinstance(value, Parted):
        return _attended_in_parts(query, key, value, attention_mask, scaling or size**-0.5), None
    assert isinstance(key, Tensor)
    assert isinstance(value, Tensor)
    by_head = attention_mask is not None and attention_mask.shape[1] != 1
    if queries > 1 or heads == key.shape[1] or by_head or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    shared = query.reshape(rows, key.shape[1], -1, size)
    attended = torch.nn.functional.scaled_dot_product_attention(
        shared, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
    )
    return attended.reshape(rows, 1, heads, -1), None


def _attended_in_parts(
    query: Tensor, keys: Parted, values: Parted, mask: Tensor | None, scaling: float
) -> Tensor:
    rows, heads, _, _ = query.shape
    key_heads, count, _ = keys.common.shape
    shared = (query * scaling).reshape(rows, key_heads, heads // key_heads, -1)
    ahead = _of_all_rows(shared, keys.common.transpose(1, 2))
    own = shared @ keys.own.transpose(2, 3)
    if mask is not None:
        own = own.masked_fill(~mask[..., count:], float("-inf"))
    products = torch.cat([ahead, own], dim=-1)
    weights = products.softmax(-1, dtype=torch.float32).to(query.dtype)
    attended = weights[..., count:] @ values.own
    attended += _of_all_rows(weights[..., :count], values.common)
    return attended.reshape(rows, 1, heads, -1)


def _of_all_rows(states: Tensor, common: Tensor) -> Tensor:
    """Return states (rows, key heads, n, a) times what the rows share, (key heads, a, b), as one product."""
    rows, key_heads, count, _ = states.shape
    product = states.transpose(0, 1).reshape(key_heads, rows * count, -1) @ common
    return product.view(key_heads, rows, count, -1).transpose(0, 1)


@contextmanager
def shared_keys() -> Iterator[None]:
    """Let models that attend with ``sdpa`` do so while the context is open."""
    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    if before is grouped_attention:  # another thread decodes, and will put back what was there
        yield
        return
    ALL_ATTENTION_FUNCTIONS["sdpa"] = grouped_attention
    try:
        yield
    finally:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = before
