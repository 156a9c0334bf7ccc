"""Passes of rows through a model below its output head, and what of them is kept for the backward pass."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_layers import GradientCheckpointingLayer

from ragen_agents.engines.cpu.tree_pass import reads_trees, tree_states
from ragen_envs.errors import RagenError


def trunk_of(policy: Any) -> Any:
    """Return the part of a model below its output head, adapters included."""
    model = policy.get_base_model() if hasattr(policy, "get_base_model") else policy
    return getattr(model, model.base_model_prefix)


def states_before(trunk: Any, ids: Tensor, real: Tensor, chosen: Tensor, start: int) -> Tensor:
    """Return the last hidden states from which some tokens are predicted, (n, width), row by row.

    Args:
        trunk: The model below its output head.
        ids: (B, T) token ids.
        real: (B, T) bool, which are no padding.
        chosen: (B, T) bool: n tokens, none of which is the first of its row.
        start: Column at which the prompts end; what rows begin with is read and differentiated once.
    """
    before = torch.nn.functional.pad(chosen[:, 1:], (0, 1))
    if reads_trees(trunk):
        return tree_states(trunk, ids, real, start, before)
    return hidden_states(trunk, ids, real, start)[before]


def hidden_states(trunk: Any, ids: Tensor, real: Tensor, start: int) -> Tensor:
    """Return the last hidden states of rows, (B, T, d), as `states_before` does.

    Rows whose first ``start`` columns are equal share one pass over them.
    """
    prompts, copies = ids[:, :start].unique(dim=0, return_inverse=True)
    first = torch.empty(len(prompts), dtype=torch.int64, device=ids.device)
    first[copies] = torch.arange(len(ids), device=ids.device)
    read = real[first, :start]
    beginning = Cache(layer_class_to_replicate=_Beginning)
    before = _read(trunk, prompts, read, read, beginning)
    if start == ids.shape[1]:
        return before.index_select(0, copies)
    layers: list[Any] = beginning.layers
    before, *cached = _differentiated_apart([before, *(t for one in layers for t in one.taken())])
    pairs = zip(cached[::2], cached[1::2], strict=True)
    rest = Cache(layers=[_Rest(pair, copies) for pair in pairs])
    after = _read(trunk, ids[:, start:], real, real[:, start:], rest)
    return torch.cat([before.index_select(0, copies), after], dim=1)


def _differentiated_apart(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors whose graph is differentiated by itself, after all that reads them.

    In one graph a weight's gradient waits until all passes that read the weight are differentiated, so that
    there would be two gradients of every weight.
    """
    learned = [tensor for tensor in tensors if tensor.requires_grad]
    if not learned:
        return tensors
    cut = iter(_Apart.apply(learned, *(tensor.detach().requires_grad_() for tensor in learned)))  # type: ignore[no-untyped-call]
    return [next(cut) if tensor.requires_grad else tensor for tensor in tensors]


class _Apart(torch.autograd.Function):
    """Passes tensors on, and their gradients to another graph."""

    @staticmethod
    def forward(ctx: Any, origins: list[Tensor], *copies: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.origins = origins
        return copies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[None, ...]:
        pairs = [
            (origin, gradient)
            for origin, gradient in zip(ctx.origins, gradients, strict=True)
            if gradient is not None
        ]
        del ctx.origins
        if pairs:
            origins, given = zip(*pairs, strict=True)
            torch.autograd.backward(origins, given)
        return None, *(None for _ in gradients)


class _Beginning(DynamicLayer):
    """Keeps a layer's keys and values of the first pass until they are taken.

    A layer that is computed again in the backward pass therefore finds nothing cached, as at first.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, *_arguments: Any, **_more: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states

    def taken(self) -> tuple[Tensor, Tensor]:
        """Return keys and values and drop them: the graph that made them must not hold them."""
        keys, values = self.keys, self.values
        assert keys is not None
        assert values is not None
        self.keys = self.values = None
        return keys, values


class _Rest(DynamicLayer):
    """A layer's keys and values of the beginnings; those of each row follow them, and they never change."""

    def __init__(self, cached: tuple[Tensor, Tensor], copies: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        (self.keys, self.values), self.is_initialized = cached, True
        self._copies = copies

    def update(
        self, key_states: Tensor, value_states: Tensor, *_arguments: Any, **_more: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        # Indexing would do too, but its gradient takes far longer than that of index_select.
        keys, values = (part.index_select(0, self._copies) for part in (self.keys, self.values))
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)


def _read(trunk: Any, ids: Tensor, attention: Tensor, real: Tensor, cache: Cache) -> Tensor:
    places = attention.long().cumsum(1)[:, -real.shape[1] :] - 1
    output: Tensor = trunk(
        input_ids=ids, attention_mask=attention.long(), position_ids=places.clamp(min=0),
        past_key_values=cache, use_cache=True,
    ).last_hidden_state  # fmt: skip
    return output


def recompute_layers(module: nn.Module) -> None:
    """Have each decoder layer of a module keep no more than its input, and compute the rest again, in place.

    transformers' own gradient checkpointing leaves out the cache, and with it the shared beginnings.
    """
    layers = [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise RagenError(
            "update.gradient_checkpointing is true, but the model does not say what its layers are"
        )
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Any, *arguments: Any, **more: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*arguments, **more)
    # Nothing is drawn in a pass, so there are no random numbers to draw again.
    return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **more)
