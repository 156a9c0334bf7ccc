"""What vLLM checks of a device's memory before it loads a model, with a made-up device."""

from types import SimpleNamespace

import pytest
from vllm.v1.worker.utils import request_memory

from ragen_agents.engines.vllm import local as vllm_local
from ragen_agents.engines.vllm.memory import GIB, MemoryNeeds, share_of_device
from ragen_agents.starter import STARTER

NEEDS = MemoryNeeds(weights=6 * GIB, working=2 * GIB, wanted_cache=20 * GIB, least_cache=GIB)


def checked(free, total, utilization):
    """Let vLLM check, with what it allocates itself before it measures."""
    device = SimpleNamespace(free_memory=free - GIB // 4, total_memory=total, device_="cuda:0")
    return request_memory(device, SimpleNamespace(gpu_memory_utilization=utilization))


@pytest.mark.parametrize("total", [24 * GIB, 80 * GIB - 12345])
@pytest.mark.parametrize("used", [0.0, 0.3, 0.5])
def test_the_share_passes_vllms_check(total, used):
    free = int(total * (1 - used))
    share = share_of_device(free, total, NEEDS)
    requested = checked(free, total, share.utilization)
    assert NEEDS.weights + share.cache < requested <= NEEDS.weights + NEEDS.working + share.cache


def test_vllms_own_default_would_not():
    with pytest.raises(ValueError, match="less than desired GPU memory utilization"):
        checked(50 * GIB, 80 * GIB, 0.92)


def test_vllm_takes_what_it_is_asked_for_on_a_gpu(monkeypatch):
    """Its FlashInfer, which nothing here needs, is not tuned at the start."""
    from vllm.engine.arg_utils import EngineArgs

    monkeypatch.setattr(vllm_local, "device_memory", lambda: (60 * GIB, 80 * GIB))
    settings = vllm_local.LocalSettings(context=1024, sequences=8)
    asked = vllm_local._of_device(STARTER, settings, "bfloat16", 8, on_cpu=False)
    found = EngineArgs(model=str(STARTER), **asked)
    assert found.enable_sleep_mode
    assert found.enable_flashinfer_autotune is False
    assert vllm_local._QUIET["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
