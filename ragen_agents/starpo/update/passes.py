"""Passes of rows through a model below its output head, and what of them is kept for the backward pass."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache, DynamicLayer
from transformers.modeling_layers import GradientCheckpointingLayer

from ragen_envs.errors import RagenError


def trunk_of(policy: Any) -> Any:
    """Return the part of a model below its output head, adapters included."""
    model = policy.get_base_model() if hasattr(policy, "get_base_model") else policy
    return getattr(model, model.base_model_prefix)


def hidden_states(trunk: Any, ids: Tensor, real: Tensor, start: int) -> Tensor:
    """Return the last hidden states of rows; what they begin with is read and differentiated once.

    Args:
        trunk: The model below its output head.
        ids: (B, T) token ids.
        real: (B, T) bool, which are no padding.
        start: Columns of the beginning. Rows that are equal there share one pass over it.

    Returns:
        (B, T, d).
    """
    prompts, copies = ids[:, :start].unique(dim=0, return_inverse=True)
    first = torch.empty(len(prompts), dtype=torch.int64, device=ids.device)
    first[copies] = torch.arange(len(ids), device=ids.device)
    read = real[first, :start]
    beginning = Cache(layer_class_to_replicate=_Beginning)
    before = _read(trunk, prompts, read, read, beginning).index_select(0, copies)
    layers: list[Any] = beginning.layers
    rest = Cache(layers=[_Rest(layer.taken(), copies) for layer in layers])
    if start == ids.shape[1]:
        return before
    after = _read(trunk, ids[:, start:], real, real[:, start:], rest)
    return torch.cat([before, after], dim=1)


class _Beginning(DynamicLayer):
    """Keeps a layer's keys and values of the first pass until they are taken.

    A layer that is computed again in the backward pass therefore finds nothing cached, as at first.
    """

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *_arguments: Any,
        **_more: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return what it is passed."""
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
        self,
        key_states: Tensor,
        value_states: Tensor,
        *_arguments: Any,
        **_more: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return the keys and values of whole rows."""
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

    Raises:
        RagenError: It has no such layers.
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
