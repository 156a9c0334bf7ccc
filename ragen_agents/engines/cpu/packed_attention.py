"""Attention within a tree of tokens on CUDA, in bfloat16: one call of PyTorch's kernel for all nodes.

To the kernel each node is a sequence: its queries attend to the keys of its path, which are those above it
and its own. Causal masks end with their sequences, so that no mask is stored, nothing is padded, and query
heads share keys without copies of them.
"""

from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from ragen_agents.engines.cpu.token_tree import TokenTree


class Packed(NamedTuple):
    """Positions at which the kernel finds the queries and keys of nodes."""

    seen: Tensor
    """(M,) int64: the tokens of all paths, one path after another."""
    query_starts: Tensor
    """(nodes + 1,) int32: where the queries of each node begin in the tree."""
    key_starts: Tensor
    """(nodes + 1,) int32: where its path begins in ``seen``."""
    longest_node: int
    longest_path: int

    @classmethod
    def of(cls, tree: TokenTree) -> "Packed":
        """Return the paths of a tree, whose levels are on a CPU; the tensors are where its tokens are."""
        paths: list[list[Tensor]] = []
        nodes: list[int] = []
        for level in tree.levels:
            lengths = level.real.sum(1).tolist()
            own = torch.arange(level.tokens.start, level.tokens.stop).split(lengths)
            if level.parents is not None:
                above = paths[level.parents.level]
                numbers = level.parents.nodes.tolist()
                own = tuple(torch.cat([above[n], o]) for n, o in zip(numbers, own, strict=True))
            paths.append(list(own))
            nodes += lengths
        flat = [path for level_paths in paths for path in level_paths]
        lengths = [len(path) for path in flat]
        device = tree.ids.device
        return cls(
            torch.cat(flat).to(device), _starts(nodes, device), _starts(lengths, device),
            max(nodes), max(lengths),
        )  # fmt: skip


def _starts(lengths: list[int], device: torch.device) -> Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)


def packed_attention(packed: Packed, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """Attend in bfloat16.

    Args:
        packed: Of a tree.
        query: (N, query heads, head size), of the tree's tokens; as many query heads share each key
            head, and they follow one another.
        key: (N, key heads, head size).
        value: As ``key``.
        scaling: Factor of the products.

    Returns:
        (N, query heads, head size), bfloat16.
    """
    # Gathered in float32, so that gradients of shared keys are summed in it.
    keys, values = (each.float().index_select(0, packed.seen).bfloat16() for each in (key, value))
    return _attend(query.bfloat16(), keys, values, packed, scaling)


def _attend(query: Tensor, keys: Tensor, values: Tensor, packed: Packed, scaling: float) -> Tensor:
    # torch.nn.attention.varlen calls the same, but its signature differs between versions of PyTorch.
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query, keys, values, packed.query_starts, packed.key_starts, packed.longest_node,
        packed.longest_path, 0.0, True, False, scale=scaling,
    )[0]  # fmt: skip
    return attended
