"""Memory of vLLM: keys and values by a model's config, and its share of a device beside the trainer.

vLLM 0.32 keeps keys and values in whole blocks of tokens. Where some layers attend to a window only, it
sorts the layers into groups of equal size, each with blocks of its own, and fills the last group of a
kind with layers that do not exist.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from transformers import AutoModelForCausalLM

from ragen_envs.errors import RagenError

GIB: Final = 2**30
BATCHED_TOKENS: Final = 8192
"""Tokens that vLLM computes at most in one step."""
MARGIN: Final = GIB // 2
"""Bytes left free for what vLLM and PyTorch allocate before vLLM measures."""
_FIXED: Final = GIB
"""Bytes for CUDA graphs and workspaces; an estimate, as is all of `_working_bytes`."""
_USUAL: Final = 4096
"""Tokens of a conversation where no bound is known."""
_SMALLEST_CACHE: Final = 64 * 2**20
MORE_MEMORY: Final = (
    "use a smaller model, end other programs on the device, or serve the model on another one and name it "
    "openai:MODEL"
)
"""Advice where a model does not fit beside its cache."""
BYTES_PER_ELEMENT: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number, by the name of its precision."""
BLOCK: Final = 32
"""Tokens of a block; vLLM uses 16 on GPUs, which rounds less."""


@dataclass(frozen=True)
class MemoryNeeds:
    """Memory that vLLM needs, in bytes."""

    weights: int
    working: int
    """Activations of one step, logits, CUDA graphs."""
    wanted_cache: int
    """Keys and values of all conversations together; less costs speed, not correctness."""
    least_cache: int
    """Keys and values of one conversation of full length, without which vLLM does not start."""


class MemoryShare(NamedTuple):
    """Memory that vLLM is started with."""

    cache: int
    """Bytes for keys and values."""
    utilization: float
    """Share of the device, in (0, 1], that vLLM checks to be free."""


def needs_of(config: Any, precision: str, context: int | None, sequences: int) -> MemoryNeeds:
    """Compute the memory that a model needs in vLLM for so many conversations at the same time.

    Without a context of theirs, ``_USUAL`` tokens of the model's must fit. The precision is a key of
    `BYTES_PER_ELEMENT`.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    own = int(getattr(config.get_text_config(), "max_position_embeddings", _USUAL))
    usual = min(own, _USUAL) if context is None else context
    least = max(_SMALLEST_CACHE, cache_bytes(config, precision, usual))
    whole = cache_bytes(config, precision, own if context is None else context)
    return MemoryNeeds(
        weights=sum(parameter.numel() for parameter in model.parameters()) * BYTES_PER_ELEMENT[precision],
        working=_working_bytes(config, precision, sequences),
        wanted_cache=max(least, whole, cache_bytes(config, precision, usual, sequences)),
        least_cache=least,
    )


def _working_bytes(config: Any, precision: str, sequences: int) -> int:
    """Return an estimate of what vLLM needs beside weights and cache."""
    text = config.get_text_config()
    inner = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    states = BATCHED_TOKENS * (4 * text.hidden_size + 3 * inner) * BYTES_PER_ELEMENT[precision]
    logits = 3 * sequences * text.vocab_size * BYTES_PER_ELEMENT["float32"]
    return int(states + logits + _FIXED)


def share_of_device(
    free: int,
    total: int,
    needs: MemoryNeeds,
    *,
    cache_gib: float | None = None,
    utilization: float | None = None,
    reserved: int = 0,
    advice: str = MORE_MEMORY,
) -> MemoryShare:
    """Divide a device between the trainer and vLLM.

    Sizes are in bytes. ``cache_gib`` and ``utilization``, the share of the device for vLLM, are what the user
    has set; ``reserved`` is what the trainer will take later and keep while vLLM works.
    """
    limit = free - MARGIN if utilization is None else int(total * utilization)
    if limit > free:
        raise RagenError(
            f"vllm.gpu_memory_utilization is {utilization}, which is {_gib(limit)} GiB of the device, but "
            f"only {_gib(free)} GiB are free; lower it, or leave it out"
        )
    remedy = advice if utilization is None else "raise vllm.gpu_memory_utilization, or leave it out"
    if limit <= needs.weights:
        raise RagenError(
            f"vLLM's weights take {_gib(needs.weights)} GiB, but it has {_gib(max(0, limit))}; {remedy}"
        )
    room = limit - needs.weights - (reserved if utilization is None else 0)
    if cache_gib is not None:
        cache = int(cache_gib * GIB)
        if cache > limit - needs.weights:
            raise RagenError(
                f"cache_gib is {cache_gib:g}, but {_gib(limit - needs.weights)} GiB are left beside "
                "vLLM's weights; lower it"
            )
    else:
        cache = min(needs.wanted_cache, room - needs.working)
    if cache < needs.least_cache:
        raise RagenError(
            f"vLLM needs a cache of {_gib(needs.least_cache)} GiB for one conversation of full length, but "
            + (
                f"{_gib(max(0, cache))} GiB are free for it beside vLLM's weights; {remedy}"
                if cache_gib is None
                else f"cache_gib is {cache_gib:g}; raise it"
            )
        )
    claimed = min(limit, needs.weights + needs.working + cache)
    return MemoryShare(cache, utilization or max(1e-3, claimed / total - 1e-6))


def cache_on_host(available: int, needs: MemoryNeeds, cache_gib: float | None) -> int:
    """Return the bytes of vLLM's cache on a CPU, where half of what is available is left to others."""
    if cache_gib is not None:
        return int(cache_gib * GIB)
    return max(needs.least_cache, min(needs.wanted_cache, available // 2))


def device_memory() -> tuple[int, int]:
    """Return the free and all bytes of the present CUDA device, after the allocator's cache was freed."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return int(free), int(total)


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def cache_bytes(config: Any, precision: str, tokens: int, sequences: int = 1) -> int:
    """Return bytes of keys and values that are enough for sequences that share nothing.

    A window may begin inside a block, and vLLM keeps one block for itself; both are counted.
    """
    blocks = sequences * (-(-tokens // BLOCK) + 1) + 1
    return blocks * BLOCK * bytes_per_token(config, precision)


def bytes_per_token(config: Any, precision: str) -> int:
    """Return the bytes of a token's keys and values; precision is a key of `BYTES_PER_ELEMENT`."""
    text = config.get_text_config()
    queries = text.num_attention_heads
    heads = getattr(text, "num_key_value_heads", None) or queries
    size = getattr(text, "head_dim", None) or text.hidden_size // queries
    return int(2 * _stored_layers(text) * heads * size * BYTES_PER_ELEMENT[precision])


def _stored_layers(text: Any) -> int:
    """Return the layers that are stored, those that only fill a group included."""
    layers = int(text.num_hidden_layers)
    kinds = Counter((getattr(text, "layer_types", None) or ())[:layers])
    if len(kinds) < 2:
        return layers
    group = min(kinds.values())
    if max(kinds.values()) < 1.5 * group:
        group = max(kinds.values())
    return sum(-(-count // group) * group for count in kinds.values())
