"""Attention for decoding that reads each cached key and value once.

Where several query heads share a key head (grouped-query attention, arXiv 2305.13245), transformers copies
the keys and values for each of them before a masked attention. A decoding step has one query a row, so its
heads can take the place of a sequence instead, and nothing is copied.
"""

from typing import Any, Final

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

_NAME: Final = "ragen_grouped_sdpa"


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
    """Attend as ``sdpa`` of transformers does; see there for what is passed.

    Args:
        module: The layer.
        query: (rows, query heads, queries, head size).
        key: (rows, key heads, slots, head size); query heads are a multiple of the key heads.
        value: As ``key``.
        attention_mask: (rows, 1, queries, slots), or None.
        dropout: Chance that a weight is dropped.
        scaling: Of the products, by default the inverse root of the head size.
        kwargs: What else a layer passes; only seen where the queries are several.

    Returns:
        (rows, queries, query heads, head size), and no weights.
    """
    rows, heads, queries, size = query.shape
    if queries > 1 or heads == key.shape[1] or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    shared = query.reshape(rows, key.shape[1], -1, size)
    attended = torch.nn.functional.scaled_dot_product_attention(
        shared, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
    )
    return attended.reshape(rows, 1, heads, size), None


def use_grouped_attention(model: Any) -> None:
    """Let a model that would use ``sdpa`` decode so; any other model stays as it is."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(_NAME)


AttentionInterface.register(_NAME, grouped_attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
