"""vLLM in this process: how it is loaded, driven, given new weights and put to sleep.

Written for and run with vLLM 0.32.0, like ``engines.vllm.api``.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor
from transformers import AutoConfig

from ragen_agents.engines.base import EngineError
from ragen_agents.engines.vllm.api import SCORING, Finished, check_version, label_of
from ragen_agents.engines.vllm.memory import (
    BATCHED_TOKENS,
    MORE_MEMORY,
    cache_on_host,
    device_memory,
    needs_of,
    share_of_device,
)
from ragen_agents.engines.weights import Sums, add_to, check_sums, noted
from ragen_envs.errors import RagenError, first_line

_CPU_BLOCK: Final = 32
"""Tokens of a block of keys and values on the CPU, whose default of 128 leaves little of a prompt to
reuse."""
_MOST_SEQUENCES: Final = 1024
"""Conversations that vLLM decodes together at most; it queues the others."""
_QUIET: Final = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # In this process, so that weights are handed over as tensors.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # It serves top-p and top-k, which nothing here asks for, and would be compiled at the start.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
_LACKS_MEMORY: Final = (
    "out of memory", "free memory on device", "available memory for the cache blocks",
    "available kv cache memory",
)  # fmt: skip


@dataclass(frozen=True)
class LocalSettings:
    """Settings that vLLM is started with."""

    context: int | None
    """Most tokens of a prompt and its reply together; None for the model's own, or as much of it as fits
    the cache."""
    sequences: int
    """Conversations at the same time."""
    precision: str = "auto"
    """"float32", "bfloat16", or "auto": float32 on the CPU, else bfloat16."""
    cache_gib: float | None = None
    """Memory for keys and values, in GiB; None for as much as all conversations need and is free."""
    gpu_memory_utilization: float | None = None
    """Share of the device that vLLM may take, in (0, 1]; None for what it needs of what is free."""
    reserved: int = 0
    """Bytes of the device that others will take after vLLM has started."""
    sleeps: bool = True
    """Whether others need the device's memory between requests."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of vLLM's engine; see `engines.vllm.api.check_extra`."""
    advice: str = MORE_MEMORY
    """What to change where memory is not enough."""


class LocalModel:
    """A model in vLLM's engine, in this process; see `load_local`."""

    def __init__(self, engine: Any, precision: str, can_sleep: bool, advice: str = MORE_MEMORY) -> None:
        self.precision = precision
        self._advice = advice
        self._engine, self._can_sleep = engine, can_sleep
        self._state: Literal["awake", "asleep", "empty"] = "awake"

    @property
    def needs_weights(self) -> bool:
        """Whether it has dropped its weights, so that `reload` must come before the next request."""
        return self._state == "empty"

    @property
    def context(self) -> int:
        """Most tokens of a prompt and its reply together."""
        return int(self._engine.model_config.max_model_len)

    def add(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> None:
        """Queue a request; the name is the caller's, the fields those of `sampling_fields`."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._wake()
        params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        with self._one_line_errors("taking a request"):
            self._engine.add_request(name, {"prompt_token_ids": list(ids)}, params)

    def step(self) -> dict[str, Finished]:
        """Sample one token on each row and return the replies that this finished, by name."""
        with self._one_line_errors("generating"):
            outputs = self._engine.step()
        return {output.request_id: _finished(output) for output in outputs if output.finished}

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats.

        Called when nothing is queued.
        """
        from vllm import SamplingParams

        self._wake()
        params = SamplingParams(**SCORING)
        finished: list[Any] = []
        with self._one_line_errors("scoring"):
            self._engine.add_request("score", {"prompt_token_ids": list(ids)}, params)
            while not finished:
                finished = [output for output in self._engine.step() if output.finished]
        pairs = zip(finished[0].prompt_logprobs[1:], ids[1:], strict=True)
        return [float(place[token].logprob) for place, token in pairs]

    def reload(self, weights: Iterable[tuple[str, Tensor]], label: str) -> None:
        """Load weights, and discard what was computed with the old ones.

        Called when nothing is queued.

        Raises:
            EngineError: It holds other weights afterwards.
        """
        if self._state == "asleep":
            self._wake()
        sent: Sums = {}
        with self._one_line_errors("taking over weights"):
            if self._state == "empty":
                torch.cuda.empty_cache()  # PyTorch keeps the memory of the update's activations
                self._engine.wake_up(["weights"])
            self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": noted(weights, sent)})
            reading = partial(_weight_sums, dtype=getattr(torch, self.precision))
            for held in self._engine.collective_rpc(reading):
                check_sums(sent, held, label)
            if self._state == "empty":
                self._engine.wake_up(["kv_cache"])
            self._state = "awake"
            if not self._engine.reset_prefix_cache():
                raise EngineError("vLLM could not clear its prefix cache: requests are running")
            self._engine.set_weight_version(label)

    def sleep(self, keep_weights: bool) -> None:
        """Leave the device's memory to others, where it can."""
        if not self._can_sleep or self._state != "awake":
            return
        with self._one_line_errors("going to sleep"):
            self._engine.sleep(level=1 if keep_weights else 2)
        self._state = "asleep" if keep_weights else "empty"

    def close(self) -> None:
        """End the engine and free its memory."""
        with self._one_line_errors("closing"):
            self._engine.engine_core.shutdown()

    def _wake(self) -> None:
        if self._state == "empty":
            raise EngineError("vLLM has dropped its weights; sync before the next request")
        if self._state == "asleep":
            with self._one_line_errors("waking up"):
                torch.cuda.empty_cache()
                self._engine.wake_up()
            self._state = "awake"

    @contextmanager
    def _one_line_errors(self, doing: str) -> Iterator[None]:
        """Turn an exception of vLLM into an `EngineError` of one line."""
        try:
            yield
        except RagenError:
            raise
        except Exception as error:
            raise EngineError(f"vLLM failed when {doing}: {_explained(error, self._advice)}") from error


def load_local(source: str | Path, settings: LocalSettings) -> LocalModel:
    """Load a model into vLLM."""
    check_version()
    on_cpu = _prepare_process()
    precision = settings.precision
    if precision == "auto":
        precision = "float32" if on_cpu else "bfloat16"
    sequences = min(settings.sequences, _MOST_SEQUENCES)
    try:
        from vllm import LLM

        arguments = {
            "model": str(source), "dtype": precision, "logprobs_mode": "processed_logprobs",
            "generation_config": "vllm", "enable_prefix_caching": True, "disable_log_stats": True,
            "max_model_len": -1 if settings.context is None else settings.context,
            "max_num_seqs": sequences, "max_num_batched_tokens": max(BATCHED_TOKENS, sequences),
            **_of_device(source, settings, precision, sequences, on_cpu), **settings.extra,
        }  # fmt: skip
        engine = LLM(**arguments).llm_engine
    except RagenError:
        raise
    except Exception as error:
        raise RagenError(f"vLLM could not load '{source}': {_explained(error, settings.advice)}") from error
    return LocalModel(engine, precision, settings.sleeps and not on_cpu, settings.advice)


def _of_device(
    source: str | Path, settings: LocalSettings, precision: str, sequences: int, on_cpu: bool
) -> dict[str, Any]:
    config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    needs = needs_of(config, precision, settings.context, sequences)
    if on_cpu:
        import psutil  # type: ignore[import-untyped]

        available = int(psutil.virtual_memory().available)
        cache = cache_on_host(available, needs, settings.cache_gib)
        # A prompt in two parts would rewind its random numbers, which vLLM cannot do on a CPU.
        longest = settings.context or config.get_text_config().max_position_embeddings
        return {
            "kv_cache_memory_bytes": cache, "block_size": _CPU_BLOCK, "enforce_eager": True,
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(BATCHED_TOKENS, sequences, longest),
        }  # fmt: skip
    free, total = device_memory()
    share = share_of_device(
        free, total, needs, cache_gib=settings.cache_gib,
        utilization=settings.gpu_memory_utilization, reserved=settings.reserved, advice=settings.advice,
    )  # fmt: skip
    return {
        "kv_cache_memory_bytes": share.cache, "gpu_memory_utilization": share.utilization,
        "enable_sleep_mode": settings.sleeps, "enable_flashinfer_autotune": False,
    }  # fmt: skip


def _prepare_process() -> bool:
    """Import vLLM with the settings that this project needs; returns whether it runs on the CPU."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        from llvmlite.binding import ffi
        from vllm.platforms import current_platform
    except Exception as error:
        raise RagenError(
            f"vLLM is installed but cannot be imported: {error}; on a machine without a GPU, remove "
            "torchvision, torchaudio and torchcodec, which may be built for another torch"
        ) from error
    # vLLM looks into every object of every module for its kernels. The library object of llvmlite, which
    # compiled games load, answers to any name with a function of C, also where this wants a dictionary.
    ffi.lib._fntab.setdefault("__dict__", {})
    on_cpu = bool(current_platform.is_cpu())
    if on_cpu:
        # No binding to cores, which it would take from the trainer, and no warm-up by compiling.
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        os.environ.setdefault("VLLM_CPU_CI_ENV", "1")
    return on_cpu


@torch.no_grad()
def _weight_sums(worker: Any, dtype: torch.dtype) -> Sums:
    """Return the sums of the weights that a worker of vLLM computes with.

    Some are kept in float32; in the type that they were sent in they are what was sent.
    """
    sums: Sums = {}
    for module_name, module in worker.model_runner.get_model().named_modules():
        packed = getattr(module, "cpu_linear", None)
        for name, weight in module.named_parameters(module_name, recurse=False):
            if packed is None or not name.endswith(".weight"):
                add_to(sums, name, weight.to(dtype))
        if packed is not None:
            add_to(sums, f"{module_name}.weight", _unpacked(module, dtype))
    return sums


def _unpacked(module: Any, dtype: torch.dtype) -> Tensor:
    """Return the weight of a linear layer on a CPU, whose packed copy cannot be read, only applied."""
    size = module.embedding_dim if hasattr(module, "embedding_dim") else module.input_size
    weight: Tensor = module.cpu_linear(torch.eye(size, dtype=dtype), module.weight, None)
    return weight


def _explained(error: Exception, advice: str) -> str:
    line = first_line(error)
    lacks = isinstance(error, torch.OutOfMemoryError)
    if lacks or any(sign in line.lower() for sign in _LACKS_MEMORY):
        return f"{line.rstrip('.')}; {advice}"
    return line


def _finished(output: Any) -> Finished:
    reply = output.outputs[0]
    ids = list(reply.token_ids)
    if reply.finish_reason not in ("stop", "length"):
        raise EngineError(f"vLLM ended a reply with '{reply.finish_reason}'")
    logprobs = [float(place[token].logprob) for place, token in zip(reply.logprobs, ids, strict=True)]
    label = label_of(reply.weight_versions or ())
    return Finished(ids, logprobs, reply.finish_reason, label)
