"""Imported by the processes of a task, so that they run without vLLM: `FakeVllmEngine` takes its place.

Each process that loads it adds its number to the file ``processes`` of its task.
"""

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from fake_vllm_engine import FakeVllmEngine, sleeping_model
from transformers import AutoModelForCausalLM

from ragen_agents.engines.vllm import local as vllm_local
from ragen_agents.policies import language_models


def load(source, settings):
    with Path("processes").open("a") as file:
        file.write(f"{os.getpid()}\n")
    return sleeping_model(FakeVllmEngine(AutoModelForCausalLM.from_pretrained(source).eval()))


vllm, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
vllm.SamplingParams = lambda **fields: SimpleNamespace(fields=fields)
params.RequestOutputKind = SimpleNamespace(FINAL_ONLY=2)
sys.modules |= {"vllm": vllm, "vllm.sampling_params": params}
vllm_local.load_local = language_models.load_local = load
language_models.check_version = lambda: None
