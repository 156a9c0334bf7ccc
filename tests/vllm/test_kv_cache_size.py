"""The size of keys and values beside vLLM's own arithmetic, for the shapes of published models."""

from types import SimpleNamespace

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

from ragen_agents.engines.vllm.memory import bytes_per_token, cache_bytes

SHAPES = {
    "Qwen2.5-0.5B": Qwen2Config(
        hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2
    ),
    "Qwen2.5-1.5B": Qwen2Config(
        hidden_size=1536, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2
    ),
    "Qwen2.5-3B": Qwen2Config(
        hidden_size=2048, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2
    ),
    "Qwen2.5-7B": Qwen2Config(
        hidden_size=3584, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4
    ),
    "Llama-3.2-3B": LlamaConfig(
        hidden_size=3072, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8,
        head_dim=128,
    ),
    "Gemma-3-1B": Gemma3TextConfig(
        hidden_size=1152, num_hidden_layers=26, num_attention_heads=4, num_key_value_heads=1,
        head_dim=256, sliding_window=512,
    ),
    "Gemma-3-4B": Gemma3TextConfig(
        hidden_size=2560, num_hidden_layers=34, num_attention_heads=8, num_key_value_heads=4,
        head_dim=256, sliding_window=1024,
    ),
}  # fmt: skip


def specs(config, block, dtype):
    """vLLM's description of each layer's keys and values."""
    heads, size = config.num_key_value_heads, getattr(config, "head_dim", None)
    shape = {
        "block_size": block, "num_kv_heads": heads, "dtype": dtype,
        "head_size": size or config.hidden_size // config.num_attention_heads,
    }  # fmt: skip
    return {
        f"layer {i}": SlidingWindowSpec(**shape, sliding_window=config.sliding_window)
        if kind == "sliding_attention"
        else FullAttentionSpec(**shape)
        for i, kind in enumerate(getattr(config, "layer_types", None) or ["full"] * config.num_hidden_layers)
    }


def settings(length):
    """The parts of vLLM's config that its arithmetic reads."""
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=length),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        max_in_flight_tokens=16384,
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_token_takes_what_vllm_stores_of_it(name, precision):
    dtype = getattr(torch, precision)
    layers = specs(SHAPES[name], 16, dtype)
    groups = kv_cache_utils._get_kv_cache_groups_uniform_page_size(layers)
    page = next(iter(layers.values())).page_size_bytes
    stored = max(len(group.layer_names) for group in groups) * len(groups)
    assert bytes_per_token(SHAPES[name], precision) * 16 == page * stored


@pytest.mark.parametrize("length", [17, 512, 2048, 8192])
@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("name", SHAPES)
def test_one_sequence_fits_as_vllm_counts(name, block, length):
    layers = specs(SHAPES[name], block, torch.bfloat16)
    groups = kv_cache_utils._get_kv_cache_groups_uniform_page_size(layers)
    page = next(iter(layers.values())).page_size_bytes
    block_bytes = max(len(group.layer_names) for group in groups) * page
    wanted = sum(-(-group.kv_cache_spec.max_memory_usage_bytes(settings(length)) // page) for group in groups)
    enough = cache_bytes(SHAPES[name], "bfloat16", length)
    assert wanted * block_bytes <= enough - block_bytes  # one block is vLLM's own
    assert enough < 1.5 * wanted * block_bytes + 6 * block_bytes * len(groups)
