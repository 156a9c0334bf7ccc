"""Attention for decoding that reads each cached key and value once, also those that all rows share.

Where several query heads share a key head (grouped-query attention, arXiv 2305.13245), transformers copies
the keys and values for each of them before a masked attention. A decoding step has one query a row, so its
heads can take the place of a sequence instead, and nothing is copied.

Rows that begin with the same tokens keep their keys and values once, and the queries of all rows meet them in
one matrix product (Hydragen, arXiv 2402.05099).
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class Parted(NamedTuple):
    """Keys or values of rows that begin alike."""

    common: Tensor
    """(key heads, slots, head size), of the tokens that all rows begin with."""
    own: Tensor
    """(rows, key heads, slots, head size), of what follows on each row."""


def attend(
    query: Tensor, keys: Tensor | Parted, values: Tensor | Parted, bias: Tensor | None, scaling: float
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


def attend_many(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scaling: float) -> Tensor:
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
