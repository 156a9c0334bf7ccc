"""Attention for decoding that reads each cached key and value once.

Where several query heads share a key head (grouped-query attention, arXiv 2305.13245), transformers copies
the keys and values for each of them before a masked attention. A decoding step has one query a row, so its
heads can take the place of a sequence instead, and nothing is copied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend as ``sdpa`` of transformers does, which it calls for all but steps of one query a row.

    Args:
        module: The layer.
        query: (rows, query heads, queries, head size).
        key: (rows, key heads, slots, head size); query heads are a multiple of the key heads.
        value: As ``key``.
        attention_mask: (rows, 1, queries, slots), or None; other shapes are left to ``sdpa``.
        dropout: Chance that a weight is dropped.
        scaling: Of the products, by default the inverse root of the head size.
        kwargs: What else a layer passes to ``sdpa``.

    Returns:
        (rows, queries, query heads, head size), and no weights.
    """
    rows, heads, queries, size = query.shape
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
