"""Make the engine that generates a run's rollouts."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator

from ragen_agents.engines import Engine
from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.engines.weights import PROBE_LENGTH
from ragen_agents.model_files.source import model_source
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.conversation_length import longest_conversation
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.processes import RunProcesses
from ragen_agents.starpo.setup import MakeEnv
from ragen_agents.starpo.update.learner import Learner
from ragen_envs.errors import RagenError


def make_engine(
    config: TrainConfig,
    learner: Learner,
    codec: ChatCodec,
    accelerator: Accelerator,
    folder: Path,
    *,
    context: int,
    reserved: int,
) -> Engine:
    """Make the engine that a config names; all processes call this together."""
    max_tokens = config.rollout.max_tokens
    if config.engine == "transformers":
        policy = learner.whole_policy()
        precision = torch.bfloat16 if config.update.precision == "bfloat16" else None
        return TransformersEngine(policy, codec.stop_token_ids, codec.pad, max_tokens, precision)
    if config.engine == "vllm-server":
        model = learner.models.policy.config
        return _served(config, model, codec, RunProcesses(accelerator), folder, context)
    from ragen_agents.engines.vllm.engine import VllmEngine
    from ragen_agents.engines.vllm.local import LocalSettings, load_local

    given = config.vllm
    evaluated = config.evaluation.episodes if config.evaluation.every else 0
    settings = LocalSettings(
        context, max(config.episodes, evaluated), given.precision, given.cache_gib,
        given.gpu_memory_utilization, reserved, extra=given.extra,
    )  # fmt: skip
    local = load_local(model_source(config.model), settings)
    return VllmEngine(local, codec.stop_token_ids, max_tokens)


def check_processes(config: TrainConfig, processes: int) -> None:
    """Check, before any model is loaded, that the engine of a config can serve so many processes."""
    if config.engine == "vllm" and processes > 1:
        raise RagenError(
            f"engine is vllm, which runs with one process of the trainer, not {processes}; use vllm-server"
        )


def engine_context(config: TrainConfig, make_env: MakeEnv, codec: ChatCodec, own: int) -> int:
    """Return the most tokens of a conversation that the engine of a config reads."""
    if config.engine == "transformers":
        return own
    wanted = config.vllm.max_model_len
    if wanted is None:
        wanted = longest_conversation(make_env(), codec, config.rollout.max_tokens)
    return min(own, max(wanted, 2 * PROBE_LENGTH))


class ServerShare(NamedTuple):
    """A process's share of the servers."""

    urls: list[str]
    """Those that it asks."""
    leads: bool
    """Whether it gives these the weights."""


def server_share(urls: Sequence[str], rank: int, processes: int) -> ServerShare:
    """Return the share of the servers of a process of a run.

    Every process asks at least one, every server is asked, and exactly one process leads each.
    """
    if len(urls) >= processes:
        return ServerShare(list(urls[rank::processes]), leads=True)
    return ServerShare([urls[rank % len(urls)]], leads=rank < len(urls))


def _served(
    config: TrainConfig, model: Any, codec: ChatCodec, processes: RunProcesses, folder: Path,
    context: int,
) -> Engine:  # fmt: skip
    from ragen_agents.engines.vllm.served import ServedEngine
    from ragen_agents.engines.vllm.server import ServedModel
    from ragen_agents.policies.endpoint.settings import check_base_url

    server = config.server
    urls, leads = server_share(
        [check_base_url(url) for url in server.urls], processes.rank, processes.count
    )
    servers = [
        ServedModel(url, model.vocab_size, server.timeout, server.outage_timeout) for url in urls
    ]
    shared = folder if server.folder is None else Path(server.folder)
    run = processes.from_first(f"{uuid.uuid4().hex[:8]}-")
    return ServedEngine(
        servers, leads, shared, codec.stop_token_ids, config.rollout.max_tokens,
        context, run, processes,
    )  # fmt: skip
