"""The pass of models built like Llama on a CPU, with gradients: each different token is read once.

transformers' own pass takes rows of equal length. This one takes the tree of tokens that rows make up: its
tokens go through the matrix products as one list without padding, and only attention sees the tree. The
model's own embeddings, projections and feed-forward layers are called, so that adapters and autocast take
part.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from ragen_agents.engines.cpu.llama_forward import is_like_llama
from ragen_agents.engines.cpu.windows import has_windows
from ragen_agents.starpo.update.token_tree import TokenTree
from ragen_agents.starpo.update.tree_attention import has_kernel, tree_attention


def reads_trees(trunk: Any) -> bool:
    """Return whether `llama_states` gives a model's own states, on its device and as it is set up."""
    return (
        trunk.device.type == "cpu"
        and is_like_llama(trunk.config)
        and trunk.config._attn_implementation == "sdpa"
        and not has_windows(trunk.config)
        # Passes of split layers, and of those that are computed again, go through the layers themselves.
        and not isinstance(trunk.layers[0], FSDPModule)
        and not isinstance(trunk.layers[0].forward, partial)
        and has_kernel()
    )


def llama_states(trunk: Any, tree: TokenTree, wanted: Tensor) -> Tensor:
    """Return the last hidden states of some tokens, (n, width).

    Args:
        trunk: The model below its output head.
        tree: The tokens.
        wanted: (n,) int64, of the tree's tokens.
    """
    states = trunk.embed_tokens(tree.ids)
    cos, sin = (each[0, :, None] for each in trunk.rotary_emb(states[None], tree.positions[None]))
    half = sin.shape[-1] // 2
    rotation = (cos, torch.cat([-sin[..., :half], sin[..., half:]], dim=-1))
    for layer in trunk.layers:
        normed = _normed(layer.input_layernorm, states)
        states = states + _attention(layer.self_attn, normed, rotation, tree)
        states = states + layer.mlp(_normed(layer.post_attention_layernorm, states))
    return _normed(trunk.norm, states.index_select(0, wanted))


def _attention(
    module: Any, states: Tensor, rotation: tuple[Tensor, Tensor], tree: TokenTree
) -> Tensor:
    query, key, value = (
        project(states).unflatten(-1, (-1, module.head_dim))
        for project in (module.q_proj, module.k_proj, module.v_proj)
    )
    if hasattr(module, "q_norm"):
        query, key = _normed(module.q_norm, query), _normed(module.k_norm, key)
    query, key = (_rotated(each, rotation) for each in (query, key))
    attended = tree_attention(query, key, value, tree, module.scaling)
    projected: Tensor = module.o_proj(attended.flatten(1).to(states.dtype))
    return projected


def _rotated(states: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotation
    return torch.addcmul(states * cos, states.roll(states.shape[-1] // 2, -1), sin)


def _normed(norm: Any, states: Tensor) -> Tensor:
    normed: Tensor = _Norm.apply(states, norm.weight, norm.variance_epsilon)  # type: ignore[no-untyped-call]
    return normed


class _Norm(torch.autograd.Function):
    """Divides states by their root mean square, and keeps no more than them for the backward pass."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """Return the normed states times the weight."""
        precise = states.float()
        size = torch.linalg.vector_norm(precise, dim=-1, keepdim=True)
        factor = (size.square() / states.shape[-1] + epsilon).rsqrt()
        ctx.save_for_backward(states, weight, factor)
        normed: Tensor = weight * (precise * factor).to(states.dtype)
        return normed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of states and weight."""
        states, weight, factor = ctx.saved_tensors
        normed = states.float() * factor
        to_weight = (gradient * normed).flatten(0, -2).sum(0)
        scaled = gradient.float() * weight
        along = torch.linalg.vecdot(scaled, normed)[..., None] / states.shape[-1]
        to_states = (scaled - normed * along) * factor
        return to_states.to(states.dtype), to_weight.to(weight.dtype), None
