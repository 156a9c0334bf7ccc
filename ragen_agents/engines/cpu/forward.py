"""Passes of tokens through a model with keys and values kept: by its own code, or by ours if like Llama.

transformers makes masks and rotations, and copies keys, as if a pass were long, and in a step of one token a
row this takes longer than the model. `LlamaForward` calls the model's own embeddings, projections and
feed-forward layers, so that adapters and new weights take part, and writes out what lies between them: norms,
rotations and attention to kept keys and values.

Where query heads share a key head (grouped-query attention, arXiv 2305.13245), transformers copies the keys
for each of them. A step has one query a row, so its heads can take the place of a sequence instead. What all
rows begin with is kept once, and the queries of all rows meet it in one matrix product (Hydragen, arXiv
2402.05099).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache

from ragen_agents.engines.cpu.key_values import GrowingLayer, Parted
from ragen_agents.engines.weights import TOLERANCE, probe

_KNOWN: Final = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Types of models that are built alike."""
_STATIC_ROTATIONS: Final = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embeddings that do not depend on the length of the sequence."""


class Known(NamedTuple):
    """Slots that hold a token of the row."""

    slots: Tensor
    """(rows, slots) bool."""
    gaps: int
    """Slots after which all others hold one."""

    @classmethod
    def of(cls, slots: Tensor) -> "Known":
        """Find the gaps of rows; waits for the device."""
        gaps = (~slots.all(dim=0)).nonzero()
        return cls(slots, int(gaps.max()) + 1 if len(gaps) else 0)

    def is_plain(self, queries: int) -> bool:
        """Return whether so many queries are all that there is, so that a causal mask says all."""
        return not self.gaps and self.slots.shape[1] == queries

    def part(self, rows: int, slots: int) -> "Known":
        """Return the same of the first rows and slots."""
        return Known(self.slots[:rows, :slots], min(self.gaps, slots))

    def bias(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """Return the bias of the products of some slots in a step, (rows, 1, 1, end - start)."""
        nothing = torch.zeros((), dtype=dtype, device=self.slots.device)
        bias = nothing.where(self.slots[:, start:end], float("-inf"))
        return bias[:, None, None]

    def causal_bias(self, queries: int, dtype: torch.dtype) -> Tensor:
        """Return the bias of the products of the last slots' queries: (rows, 1, queries, slots)."""
        slots = self.slots.shape[1]
        column = torch.arange(slots, device=self.slots.device)
        place = column[slots - queries :, None]
        # Padding sees itself, for the softmax of nothing is not a number.
        seen = (self.slots[:, None] & (column < place)) | (column == place)
        nothing = torch.zeros((), dtype=dtype, device=self.slots.device)
        return nothing.where(seen, float("-inf"))[:, None]


Forward = Callable[[Tensor, Tensor, Cache, Known], Tensor]
"""Reads tokens, (rows, n), at their positions, (rows, n), from 0, after those in a cache of `GrowingLayer`,
which grows; known slots include theirs. Returns the logits after each row's last one, (rows, vocabulary)."""


class ModuleForward:
    """The model's own forward pass, of any architecture.

    The masks of attention with a window only the model itself can make; it then waits for the device at each
    step.
    """

    def __init__(self, model: Any, windowed: bool) -> None:
        self._model, self._windowed = model, windowed

    def __call__(self, ids: Tensor, positions: Tensor, cache: Cache, known: Known) -> Tensor:
        """Read tokens; see `Forward`."""
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask(ids.shape[1], known),
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _mask(self, queries: int, known: Known) -> Tensor | None:
        if self._windowed:
            return known.slots.long()
        if known.is_plain(queries):
            return None
        if queries > 1:
            return known.causal_bias(queries, self._model.dtype)
        slots = known.slots.shape[1]
        return known.bias(0, slots, self._model.dtype) if known.gaps else None


def forward_of(model: Any, windowed: bool) -> Forward:
    """Return the fastest pass that gives the own logits of a model in evaluation mode.

    The two are compared without gradients and in the precision of the caller.
    """
    plain = ModuleForward(model, windowed)
    if windowed or not is_like_llama(model.config):
        return plain
    direct = LlamaForward(model)
    return direct if _agree(direct, plain, model) else plain


def is_like_llama(config: Any) -> bool:
    """Return whether a model is of a type that is built like Llama, by its config."""
    if config.model_type not in _KNOWN:
        return False
    rotations = getattr(config, "rope_parameters", None) or {}
    return rotations.get("rope_type", "default") in _STATIC_ROTATIONS


def _agree(one: Forward, other: Forward, model: Any) -> bool:
    """Return whether two passes give the same log-probabilities after a fixed prompt and one token more."""
    ids = torch.tensor([probe(model)], device=model.device)
    logits = []
    for forward in (one, other):
        cache = Cache(layer_class_to_replicate=GrowingLayer)
        known = Known(torch.ones_like(ids, dtype=torch.bool), 0)
        logs = []
        for start, end in ((0, ids.shape[1] - 1), (ids.shape[1] - 1, ids.shape[1])):
            positions = torch.arange(start, end, device=ids.device)[None]
            logs.append(forward(ids[:, start:end], positions, cache, known.part(1, end)))
        logits.append(torch.cat(logs))
    gap = (logits[0].float().log_softmax(-1) - logits[1].float().log_softmax(-1)).abs().mean()
    precision = "float32" if logits[0].dtype == torch.float32 else "bfloat16"
    return float(gap) <= TOLERANCE[precision]


class LlamaForward:
    """Passes through a model of one of the known types, with or without adapters."""

    def __init__(self, model: Any) -> None:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._trunk = getattr(base, base.base_model_prefix)
        self._head = base.get_output_embeddings()

    def __call__(self, ids: Tensor, positions: Tensor, cache: Cache, known: Known) -> Tensor:
        """Read tokens; see `Forward`."""
        trunk = self._trunk
        states = trunk.embed_tokens(ids)
        rotation = rotation_of(trunk, states, positions)
        bias = self._bias(ids, cache, known, states.dtype)
        for place, layer in enumerate(trunk.layers):
            if place == len(cache.layers):
                cache.layers.append(GrowingLayer())
            normed = _normed(layer.input_layernorm, states)
            attended = _attention(layer.self_attn, normed, rotation, cache.layers[place], bias)
            states = states + layer.self_attn.o_proj(attended)
            states = states + layer.mlp(_normed(layer.post_attention_layernorm, states))
        logits: Tensor = self._head(_normed(trunk.norm, states[:, -1]))
        return logits

    def _bias(self, ids: Tensor, cache: Cache, known: Known, dtype: torch.dtype) -> Tensor | None:
        if known.is_plain(ids.shape[1]):
            return None
        if ids.shape[1] > 1:
            groups = self._trunk.layers[0].self_attn.num_key_value_groups
            return known.causal_bias(ids.shape[1], dtype).repeat(1, 1, groups, 1)
        layers: list[Any] = cache.layers
        common = layers[0].common if layers else None
        start = 0 if common is None else common[0].shape[1]
        return known.bias(start, known.gaps, dtype) if known.gaps > start else None


def rotation_of(trunk: Any, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and the signed sines that rotate heads, (rows, n, 1, head size) each."""
    cos, sin = trunk.rotary_emb(states, positions)
    half = sin.shape[-1] // 2
    sin = torch.cat([-sin[..., :half], sin[..., half:]], dim=-1)
    return cos[:, :, None], sin[:, :, None]


def heads_of(
    module: Any, states: Tensor, normed: Callable[[Any, Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of a layer before rotation, (..., heads, head size) each.

    States are (..., width); ``normed`` applies a norm, for models with norms of queries and keys.
    """
    query, key, value = (
        project(states).unflatten(-1, (-1, module.head_dim))
        for project in (module.q_proj, module.k_proj, module.v_proj)
    )
    if hasattr(module, "q_norm"):
        query, key = normed(module.q_norm, query), normed(module.k_norm, key)
    return query, key, value


def _attention(
    module: Any, states: Tensor, rotation: tuple[Tensor, Tensor], layer: Any, bias: Tensor | None
) -> Tensor:
    """Return the attended values, (rows, n, query heads * head size), and keep keys and values."""
    query, key, value = heads_of(module, states, _normed)
    heads = query.shape[2]
    both = rotated(torch.cat([query, key], dim=2), rotation).to(query.dtype)
    query, key = both[:, :, :heads], both[:, :, heads:]
    keys, values = layer.update(key.transpose(1, 2), value.transpose(1, 2))
    if states.shape[1] == 1:
        return attend(query[:, 0], keys, values, bias, module.scaling).flatten(1)[:, None]
    many = attend_many(query.transpose(1, 2), keys, values, bias, module.scaling)
    return many.transpose(1, 2).flatten(2)


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


def rotated(states: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Return heads (..., heads, size) rotated by cos and signed sin, (..., 1, size) each."""
    cos, sin = rotation
    return torch.addcmul(states * cos, states.roll(states.shape[-1] // 2, -1), sin)


def _normed(norm: Any, states: Tensor) -> Tensor:
    """Return states divided by their root mean square; rms_norm of torch takes twice as long on a CPU."""
    precise = states.float()
    size = torch.linalg.vector_norm(precise, dim=-1, keepdim=True)
    factor = (size.square() / states.shape[-1] + norm.variance_epsilon).rsqrt()
    normed: Tensor = norm.weight * (precise * factor).to(states.dtype)
    return normed


def has_windows(config: Any) -> bool:
    """Return whether the attention of some layers has a window, by a text model's config."""
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    windowed = getattr(config, "sliding_window", None) is not None
    chunked = getattr(config, "attention_chunk_size", None) is not None
    return (windowed and "sliding_attention" in kinds) or chunked
