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
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


class Parted(NamedTuple):
    """Keys or values of rows that begin alike."""

    common: Tensor
    """(key heads, slots, head size), of the tokens that all rows begin with."""
    own: Tensor
    """(rows, key heads, slots, head size), of what follows on each row."""


def attend(
    query: Tensor,
    keys: Tensor | Parted,
    values: Tensor | Parted,
    bias: Tensor | None,
    scaling: float,
) -> Tensor:
    """Attend with one query a row and query head.

    Args:
        query: (rows, query heads, head size); query heads are a multiple of the key heads.
        keys: (rows, key heads, slots, head size), or in parts where rows begin alike.
        values: As ``keys``.
        bias: (rows, 1, 1, first slots), added to the products of the rows' own slots that come first; or
            None.
        scaling: Factor of the products.

    Returns:
        (rows, query heads, head size).
    """
    own = keys.own if isinstance(keys, Parted) else keys
    shared = query.unflatten(1, (own.shape[1], -1)) * scaling
    products = shared @ own.transpose(2, 3)
    if bias is not None:
        products[..., : bias.shape[-1]] += bias
    if not isinstance(keys, Parted):
        assert isinstance(values, Tensor)
        return (_softmax(products) @ values).flatten(1, 2)
    assert isinstance(values, Parted)
    ahead = _of_all_rows(shared, keys.common.transpose(1, 2))
    weights = _softmax(torch.cat([ahead, products], dim=-1))
    count = ahead.shape[-1]
    attended = weights[..., count:] @ values.own
    return (attended + _of_all_rows(weights[..., :count], values.common)).flatten(1, 2)


def _softmax(products: Tensor) -> Tensor:
    return products.softmax(-1, dtype=torch.float32).to(products.dtype)


def _of_all_rows(states: Tensor, common: Tensor) -> Tensor:
    """Return states (rows, key heads, n, a) times what the rows share, (key heads, a, b), as one product."""
    rows, key_heads, count, _ = states.shape
    product = states.transpose(0, 1).reshape(key_heads, rows * count, -1) @ common
    return product.view(key_heads, rows, count, -1).transpose(0, 1)


def attend_many(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scaling: float
) -> Tensor:
    """Attend with several queries a row.

    Args:
        query: (rows, query heads, queries, head size).
        keys: (rows, key heads, slots, head size).
        values: As ``keys``.
        bias: (rows, 1, heads that share keys * queries, slots), added to the products; or None where each
            query sees the slots up to its own.
        scaling: Factor of the products.

    Returns:
        (rows, query heads, queries, head size).
    """
    if bias is None:
        return scaled_dot_product_attention(
            query, keys, values, is_causal=True, scale=scaling, enable_gqa=True
        )
    # Heads that share keys come one after another on the axis of queries, so that no key is copied.
    grouped = query.reshape(len(query), keys.shape[1], -1, query.shape[3])
    attended = scaled_dot_product_attention(grouped, keys, values, attn_mask=bias, scale=scaling)
    return attended.view(query.shape)


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
        attention_mask: (rows, 1, queries, all slots), added to the products where there is one query a row;
            or None. Other shapes are left to ``sdpa``.
        dropout: Chance that a weight is dropped.
        scaling: Of the products, by default the inverse root of the head size.
        kwargs: What else a layer passes to ``sdpa``.

    Returns:
        (rows, queries, query heads, head size), and no weights.
    """
    _, heads, queries, size = query.shape
    scaling = size**-0.5 if scaling is None else scaling
    if isinstance(key, Parted):
        bias = None if attention_mask is None else attention_mask[..., key.common.shape[1] :]
        return attend(query[:, :, 0], key, value, bias, scaling)[:, None], None
    assert isinstance(value, Tensor)
    by_head = attention_mask is not None and attention_mask.shape[1] != 1
    if queries > 1 or heads == key.shape[1] or by_head or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    shared = query.unflatten(1, (key.shape[1], -1))[:, :, :, 0]
    attended = scaled_dot_product_attention(
        shared, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling
    )
    return attended.flatten(1, 2)[:, None], None


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
