"""How a device is divided between vLLM and the trainer, without a device."""

import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from fake_vllm_engine import pretend_vllm  # noqa: E402

from ragen_agents.engines.vllm import local as vllm_local  # noqa: E402
from ragen_agents.engines.vllm.api import OWN_ARGUMENTS  # noqa: E402
from ragen_agents.engines.vllm.memory import (  # noqa: E402
    GIB,
    MARGIN,
    MORE_MEMORY,
    MemoryNeeds,
    cache_on_host,
    needs_of,
    share_of_device,
)
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.errors import RagenError  # noqa: E402

TOTAL = 80 * GIB
NEEDS = MemoryNeeds(weights=6 * GIB, working=2 * GIB, wanted_cache=20 * GIB, least_cache=GIB)
LLAMA = transformers.LlamaConfig(
    vocab_size=128256, hidden_size=3072, num_hidden_layers=28, num_attention_heads=24,
    num_key_value_heads=8, head_dim=128, intermediate_size=8192, max_position_embeddings=131072,
    tie_word_embeddings=True,
)  # fmt: skip


def claimed(share):
    return share.utilization * TOTAL


def test_all_that_is_needed_is_claimed_and_no_more():
    share = share_of_device(50 * GIB, TOTAL, NEEDS)
    assert share.cache == 20 * GIB
    assert 27.9 * GIB < claimed(share) <= 28 * GIB


def test_the_cache_takes_what_is_free():
    share = share_of_device(20 * GIB, TOTAL, NEEDS)
    assert share.cache == 12 * GIB - MARGIN
    assert claimed(share) <= 20 * GIB - MARGIN


def test_what_the_trainer_will_take_is_left_to_it():
    share = share_of_device(30 * GIB, TOTAL, NEEDS, reserved=10 * GIB)
    assert share.cache == 12 * GIB - MARGIN


def test_settings_are_kept():
    share = share_of_device(50 * GIB, TOTAL, NEEDS, cache_gib=3.0, utilization=0.25)
    assert share == (3 * GIB, 0.25)
    assert share_of_device(50 * GIB, TOTAL, NEEDS, utilization=0.25).cache == 12 * GIB


@pytest.mark.parametrize(
    ("free", "settings", "words"),
    [
        (8 * GIB, {}, ["0.00 GiB are free for it", "use a smaller model", "name it openai:MODEL"]),
        (3 * GIB, {"cache_gib": 2.0}, ["weights take", "use a smaller model"]),
        (50 * GIB, {"utilization": 0.02}, ["weights take", "raise vllm.gpu_memory_utilization"]),
        (50 * GIB, {"cache_gib": 60.0}, ["cache_gib is 60", "43.50 GiB are left", "lower it"]),
        (50 * GIB, {"cache_gib": 0.5}, ["needs a cache of 1.00 GiB", "cache_gib is 0.5; raise it"]),
        (50 * GIB, {"utilization": 0.9}, ["vllm.gpu_memory_utilization is 0.9", "only 50.00 GiB"]),
    ],
)
def test_what_cannot_fit_is_refused(free, settings, words):
    with pytest.raises(RagenError) as refusal:
        share_of_device(free, TOTAL, NEEDS, **settings)
    for word in words:
        assert word in str(refusal.value)
    assert "rollout." not in str(refusal.value)  # a benchmark has no such setting


def test_a_conversation_needs_less_than_the_native_context():
    whole = needs_of(LLAMA, "bfloat16", 131072, 1)
    game = needs_of(LLAMA, "bfloat16", 2048, 128)
    assert whole.least_cache > 14 * GIB
    assert game.least_cache < 0.25 * GIB
    assert 28 * GIB < game.wanted_cache < 29 * GIB
    assert 5.9 * GIB < game.weights < 6.1 * GIB


def test_where_no_bound_is_known_the_context_is_wanted_and_a_usual_one_needed():
    needs = needs_of(LLAMA, "bfloat16", None, 2)
    assert needs.least_cache == needs_of(LLAMA, "bfloat16", 4096, 1).least_cache
    assert needs.wanted_cache > 14 * GIB


def test_on_a_cpu_half_is_left_to_others():
    assert cache_on_host(10 * GIB, NEEDS, None) == 5 * GIB
    assert cache_on_host(100 * GIB, NEEDS, None) == 20 * GIB
    assert cache_on_host(GIB, NEEDS, None) == NEEDS.least_cache
    assert cache_on_host(GIB, NEEDS, 0.25) == GIB // 4


def asked_for(monkeypatch, settings, error=None):
    """What vLLM's constructor is called with on a GPU of 24 GiB, of which the trainer holds 10."""
    asked = []

    def start(**arguments):
        asked.append(arguments)
        if error is not None:
            raise error
        return SimpleNamespace(llm_engine=None)

    pretend_vllm(monkeypatch)
    monkeypatch.setattr(sys.modules["vllm"], "LLM", start, raising=False)
    monkeypatch.setattr(vllm_local, "check_version", lambda: None)
    monkeypatch.setattr(vllm_local, "_prepare_process", lambda: False)
    monkeypatch.setattr(vllm_local, "device_memory", lambda: (14 * GIB, 24 * GIB))
    vllm_local.load_local(STARTER, settings)
    return asked[0]


def test_vllm_is_started_with_its_share_and_the_length_of_conversations(monkeypatch):
    needs = needs_of(transformers.AutoConfig.from_pretrained(STARTER), "bfloat16", 700, 128)
    share = share_of_device(14 * GIB, 24 * GIB, needs, reserved=GIB)
    asked = asked_for(monkeypatch, vllm_local.LocalSettings(700, 128, reserved=GIB))
    assert asked["dtype"] == "bfloat16"
    assert asked["max_model_len"] == 700
    assert asked["kv_cache_memory_bytes"] == share.cache == needs.wanted_cache
    assert asked["gpu_memory_utilization"] == share.utilization < 14 / 24
    assert asked["enable_sleep_mode"]


def test_settings_of_memory_reach_vllm(monkeypatch):
    given = vllm_local.LocalSettings(700, 128, cache_gib=2.0, gpu_memory_utilization=0.3)
    asked = asked_for(monkeypatch, given)
    assert asked["kv_cache_memory_bytes"] == 2 * GIB
    assert asked["gpu_memory_utilization"] == 0.3


def test_a_benchmark_is_told_of_what_it_can_change(monkeypatch):
    with pytest.raises(RagenError) as failure:
        asked_for(
            monkeypatch, vllm_local.LocalSettings(700, 128), torch.OutOfMemoryError("CUDA out of memory")
        )
    assert str(failure.value).endswith(f"CUDA out of memory; {MORE_MEMORY}")
    assert not any(setting in MORE_MEMORY for setting in ("vllm.", "rollout.", "update.", "engine="))


def test_more_arguments_reach_vllm_and_replace_defaults(monkeypatch):
    extra = {
        "attention_backend": "TRITON_ATTN",
        "enforce_eager": True,
        "enable_prefix_caching": False,
    }
    asked = asked_for(monkeypatch, vllm_local.LocalSettings(700, 128, extra=extra))
    assert {name: asked[name] for name in extra} == extra
    assert asked["max_model_len"] == 700
    optional = {"enable_prefix_caching", "disable_log_stats", "enable_flashinfer_autotune"}
    assert asked.keys() - extra.keys() - optional <= set(OWN_ARGUMENTS)
