"""The pass of models built like Llama, with gradients: each different token is read once.

transformers' own pass takes rows of equal length. This one takes the tree of tokens that rows make up: its
tokens go through the matrix products as one list without padding, and only attention sees the tree. The
model's own embeddings, projections and feed-forward layers are called, so that adapters and autocast take
part.

In attention on a CPU, a node's queries attend to the keys above it and to its own. These are two calls of
PyTorch's kernel, whose results are merged by the log-sums that it returns (FlashAttention, arXiv 2205.14135).
In the backward pass each call is given the merged result and log-sum, so that its gradients are those of its
part of the whole.

On CUDA, in bfloat16, one call of the kernel serves all nodes. To it each node is a sequence: its queries
attend to the keys of its path, which are those above it and its own. Causal masks end with their sequences,
so that no mask is stored, nothing is padded, and query heads share keys without copies of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.utils.checkpoint import checkpoint

from ragen_agents.engines.cpu.forward import has_windows, heads_of, is_like_llama, rotated, rotation_of
from ragen_agents.engines.cpu.token_tree import TokenTree

Attend = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""Attends with the queries, keys and values of a tree, and the factor of their products."""


def reads_trees(trunk: Any) -> bool:
    """Return whether `tree_states` gives a model's own states, on its device and as it is set up."""
    if not suits_trees(trunk.config) or trunk.config._attn_implementation != "sdpa":
        return False
    layer, device = trunk.layers[0], trunk.device.type
    if isinstance(layer, FSDPModule):  # passes of split layers go through the layers themselves
        return False
    if device == "cuda":
        size, rounds = layer.self_attn.head_dim, torch.is_autocast_enabled("cuda")
        return rounds and size <= 256 and size % 8 == 0 and has_packed_kernel()
    return device == "cpu" and not _is_recomputed(layer) and has_kernel()


def _is_recomputed(layer: Any) -> bool:
    return isinstance(layer.forward, partial)  # as `recompute_layers` leaves it


def suits_trees(config: Any) -> bool:
    """Return whether a text model is of a type whose tokens can be passed as a tree, by its config."""
    return is_like_llama(config) and not has_windows(config)


def tree_states(trunk: Any, ids: Tensor, real: Tensor, start: int, wanted: Tensor) -> Tensor:
    """Return the last hidden states of some tokens, (n, width), row by row.

    Args:
        trunk: The model below its output head; see `reads_trees`.
        ids: (B, T) token ids.
        real: (B, T) bool, False for padding; without gaps on any row.
        start: Column at which the prompts end.
        wanted: (B, T) bool: n tokens.
    """
    tree = TokenTree.of(ids.cpu(), real.cpu(), start).to(ids.device)
    attend = _attention_in(tree)
    states = trunk.embed_tokens(tree.ids)
    cos, sin = rotation_of(trunk, states[None], tree.positions[None])
    rotation = (cos[0], sin[0])
    for layer in trunk.layers:
        if torch.is_grad_enabled() and _is_recomputed(layer):
            states = checkpoint(
                _passed, layer, states, rotation, attend,
                use_reentrant=False, preserve_rng_state=False,
            )  # fmt: skip
        else:
            states = _passed(layer, states, rotation, attend)
    return _normed(trunk.norm, states.index_select(0, tree.places[wanted]))


def _attention_in(tree: TokenTree) -> Attend:
    """Return the attention of the device that a tree is on."""
    if tree.ids.is_cuda:
        return partial(packed_attention, Packed.of(tree))
    return partial(tree_attention, tree)


def _passed(layer: Any, states: Tensor, rotation: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
    normed = _normed(layer.input_layernorm, states)
    states = states + _attention(layer.self_attn, normed, rotation, attend)
    after: Tensor = states + layer.mlp(_normed(layer.post_attention_layernorm, states))
    return after


def _attention(module: Any, states: Tensor, rotation: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
    query, key, value = heads_of(module, states, _normed)
    query, key = (rotated(each, rotation) for each in (query, key))
    attended = attend(query, key, value, module.scaling).flatten(1)
    if not attended.is_cuda:
        attended = attended.to(states.dtype)
    projected: Tensor = module.o_proj(attended)
    return projected


def _normed(norm: Any, states: Tensor) -> Tensor:
    normed: Tensor = _Norm.apply(states, norm.weight, norm.variance_epsilon)  # type: ignore[no-untyped-call]
    return normed


class _Norm(torch.autograd.Function):
    """Divides states by their root mean square, and keeps no more than them for the backward pass."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        precise = states.float()
        size = torch.linalg.vector_norm(precise, dim=-1, keepdim=True)
        factor = (size.square() / states.shape[-1] + epsilon).rsqrt()
        ctx.save_for_backward(states, weight, factor)
        normed: Tensor = weight * (precise * factor).to(states.dtype)
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, factor = ctx.saved_tensors
        normed = states.float() * factor
        to_weight = (gradient * normed).flatten(0, -2).sum(0)
        scaled = gradient.float() * weight
        along = torch.linalg.vecdot(scaled, normed)[..., None] / states.shape[-1]
        to_states = (scaled - normed * along) * factor
        return to_states.to(states.dtype), to_weight.to(weight.dtype), None


def tree_attention(tree: TokenTree, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """Attend in float32.

    Args:
        tree: Has the tokens.
        query: (N, query heads, head size), of the tokens of the tree; as many query heads share each key
            head, and they follow one another.
        key: (N, key heads, head size).
        value: As ``key``.
        scaling: Factor of the products.

    Returns:
        (N, query heads, head size), float32.
    """
    attended: Tensor = _TreeAttention.apply(  # type: ignore[no-untyped-call]
        query.float(), key.float(), value.float(), tree, scaling
    )
    return attended


@lru_cache(maxsize=1)
def has_kernel() -> bool:
    """Return whether PyTorch's kernel, which is not of its public interface, does what is needed here."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        return _is_right(torch.device("cpu"), tolerance=1e-4)


@lru_cache(maxsize=1)
def has_packed_kernel() -> bool:
    """Return whether the kernel of CUDA, which older GPUs lack, does what is needed here."""
    if torch.cuda.get_device_capability() < (8, 0):
        return False
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cuda", enabled=False):
        return _is_right(torch.device("cuda"), tolerance=0.1)


def _is_right(device: torch.device, tolerance: float) -> bool:
    """Compare attention in a small tree, and its gradients, with a softmax over all products.

    Numbers are about 1 in size.
    """
    ids = torch.tensor([[1, 2, 3, 4], [1, 2, 5, 0], [1, 6, 7, 8]])
    tree = TokenTree.of(ids, ids != 0, 2)
    drawn = torch.Generator().manual_seed(0)
    shapes = [(len(tree.ids), heads, 8) for heads in (4, 2, 2)]
    query, key, value = given = [
        torch.randn(shape, generator=drawn).to(device).requires_grad_() for shape in shapes
    ]
    seen = torch.zeros(len(tree.ids), len(tree.ids), dtype=torch.bool)
    for places, real in zip(tree.places, ids != 0, strict=True):
        row = places[real]
        seen[row[:, None], row] |= torch.ones(len(row), len(row), dtype=torch.bool).tril()
    products = torch.einsum("qhd,khd->hqk", query, key.repeat_interleave(2, 1)) * 0.5
    weights = products.masked_fill(~seen.to(device), float("-inf")).softmax(-1)
    expected = torch.einsum("hqk,khd->qhd", weights, value.repeat_interleave(2, 1))
    try:
        attended = _attention_in(tree.to(device))(query, key, value, 0.5).float()
        gradients = torch.autograd.grad(attended.square().sum(), given)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return all(
        torch.allclose(one, other, atol=tolerance)
        for one, other in zip(
            [attended, *gradients],
            [expected, *torch.autograd.grad(expected.square().sum(), given)],
            strict=True,
        )
    )


class _TreeAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, tree: TokenTree, scaling: float
    ) -> Tensor:
        whole, log_sums = torch.empty_like(query), []
        for level, path in zip(tree.levels, _paths(key, value, tree), strict=True):
            queries = level.padded(query)
            attended, log_sum = torch.empty_like(queries), queries.new_empty(queries.shape[:3])
            parts = path.parts()
            for heads in _sharing_keys(queries, path):
                attended_parts = [_attend(queries[:, heads], part, scaling) for part in parts]
                attended[:, heads], log_sum[:, heads] = _merged(attended_parts)
            whole[level.tokens] = level.unpadded(attended)
            log_sums.append(log_sum)
        ctx.save_for_backward(query, key, value, whole, *log_sums)
        ctx.tree, ctx.scaling = tree, scaling
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, whole, *log_sums = ctx.saved_tensors
        to_query, to_key, to_value = (torch.empty_like(each) for each in (query, key, value))
        paths = _paths(key, value, ctx.tree)
        to_paths = [path.zeros() for path in paths]
        for place in reversed(range(len(paths))):
            level, path, to_path = ctx.tree.levels[place], paths[place], to_paths[place]
            given, queries, attended = (level.padded(x) for x in (gradient, query, whole))
            log_sum, to_queries, parts = log_sums[place], torch.zeros_like(queries), path.parts()
            for heads in _sharing_keys(queries, path):
                known = (given[:, heads], queries[:, heads], attended[:, heads], log_sum[:, heads])
                for part in parts:
                    change, to_part_key, to_part_value = _differentiate(*known, part, ctx.scaling)
                    to_queries[:, heads] += change
                    to_path.key[:, :, part.slots] += to_part_key
                    to_path.value[:, :, part.slots] += to_part_value
            to_query[level.tokens] = level.unpadded(to_queries)
            to_key[level.tokens] = level.unpadded(to_path.key[:, :, path.above :])
            to_value[level.tokens] = level.unpadded(to_path.value[:, :, path.above :])
            if level.parents is not None:
                to_paths[level.parents.level].add_from_children(to_path, level.parents.nodes)
        return to_query, to_key, to_value, None, None


class _Part(NamedTuple):
    """One of the two parts of paths."""

    slots: slice
    key: Tensor
    value: Tensor
    causal: bool
    """Whether it is the nodes' own, whose padding no other query sees."""
    bias: Tensor | None
    """(B, 1, L, slots): -inf for padding, else 0; None where there is no padding, or where it is causal."""


@dataclass(frozen=True)
class _Path:
    """Keys and values, or their gradients, of the tokens above each of B nodes and then of its own."""

    key: Tensor
    """(B, key heads, slots, head size)."""
    value: Tensor
    real: Tensor
    """(B, slots) bool: False for padding."""
    above: int
    """Slots above the nodes."""

    def zeros(self) -> "_Path":
        return replace(self, key=torch.zeros_like(self.key), value=torch.zeros_like(self.value))

    def parts(self) -> list[_Part]:
        """Return the part above, if there is one, and the nodes' own."""
        above, own = slice(0, self.above), slice(self.above, None)
        last = _Part(own, self.key[:, :, own], self.value[:, :, own], True, None)
        if not self.above:
            return [last]
        bias, length = None, self.key.shape[2] - self.above
        if not self.real[:, above].all():
            nothing = torch.zeros(())
            bias = nothing.where(self.real[:, None, None, above], float("-inf"))
            bias = bias.expand(-1, -1, length, -1)
        return [_Part(above, self.key[:, :, above], self.value[:, :, above], False, bias), last]

    def add_from_children(self, children: "_Path", parents: Tensor) -> None:
        """Add to each node what its children have at its slots."""
        members = (torch.arange(len(self.key))[:, None] == parents).to(self.key.dtype)
        for ours, theirs in ((self.key, children.key), (self.value, children.value)):
            # A product, for index_add takes several times as long.
            ours += torch.tensordot(members, theirs[:, :, : children.above], 1)


def _paths(key: Tensor, value: Tensor, tree: TokenTree) -> list[_Path]:
    """Return keys and values of what the nodes of each level attend to."""
    paths: list[_Path] = []
    for level in tree.levels:
        keys, values, real, above = level.padded(key), level.padded(value), level.real, 0
        if level.parents is not None:
            earlier, nodes = paths[level.parents.level], level.parents.nodes
            above = earlier.real.shape[1]
            keys = torch.cat([earlier.key.index_select(0, nodes), keys], 2)
            values = torch.cat([earlier.value.index_select(0, nodes), values], 2)
            real = torch.cat([earlier.real.index_select(0, nodes), real], 1)
        paths.append(_Path(keys, values, real, above))
    return paths


def _attend(queries: Tensor, part: _Part, scaling: float) -> tuple[Tensor, Tensor]:
    """Return the attended values, and the logarithms of the sums that divided the weights."""
    attended, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        queries, part.key, part.value, 0.0, part.causal, attn_mask=part.bias, scale=scaling
    )
    return attended, log_sum


def _differentiate(
    given: Tensor, queries: Tensor, attended: Tensor, log_sum: Tensor, part: _Part, scaling: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values by way of one part."""
    gradients: tuple[Tensor, Tensor, Tensor] = (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            given, queries, part.key, part.value, attended, log_sum, 0.0, part.causal,
            attn_mask=part.bias, scale=scaling,
        )
    )  # fmt: skip
    return gradients


def _merged(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the attended values over all parts, and the logarithm of the whole sum."""
    attended, log_sum = parts[0]
    for other, other_sum in parts[1:]:
        whole = torch.logaddexp(log_sum, other_sum)
        attended.mul_((log_sum - whole).exp()[..., None])
        attended.addcmul_(other, (other_sum - whole).exp()[..., None])
        log_sum = whole
    return attended, log_sum


def _sharing_keys(queries: Tensor, path: _Path) -> list[slice]:
    """Return slices of the query heads, each with one head for every key head.

    The kernel would copy keys that several heads share.
    """
    times = queries.shape[1] // path.key.shape[1]
    return [slice(first, None, times) for first in range(times)]


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
            ends = list(torch.arange(level.tokens.start, level.tokens.stop).split(lengths))
            if level.parents is not None:
                above = paths[level.parents.level]
                parents = level.parents.nodes.tolist()
                ends = [torch.cat([above[n], end]) for n, end in zip(parents, ends, strict=True)]
            paths.append(ends)
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
    """Attend in bfloat16; shapes are those of `tree_attention`."""
    # Gathered in float32, so that gradients of shared keys are summed in it.
    keys, values = (each.float().index_select(0, packed.seen).bfloat16() for each in (key, value))
    return _attend_packed(query.bfloat16(), keys, values, packed, scaling)


def _attend_packed(query: Tensor, keys: Tensor, values: Tensor, packed: Packed, scaling: float) -> Tensor:
    # torch.nn.attention.varlen calls the same, but its signature differs between versions of PyTorch.
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query, keys, values, packed.query_starts, packed.key_starts, packed.longest_node,
        packed.longest_path, 0.0, True, False, scale=scaling,
    )[0]  # fmt: skip
    return attended
