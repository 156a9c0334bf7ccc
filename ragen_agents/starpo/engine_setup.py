"""Which engine a run's rollouts come from."""

import uuid
from pathlib import Path
from typing import Any

import torch

from ragen_agents.engines import Engine
from ragen_agents.engines.transformers_engine import TransformersEngine
from ragen_agents.model_source import model_source
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo.config import TrainConfig
from ragen_envs.errors import RagenError


def make_engine(
    config: TrainConfig,
    policy: Any,
    codec: ChatCodec,
    processes: int,
    folder: Path,
) -> Engine:
    """Make the engine that a config names.

    Args:
        config: The run's.
        policy: The model that learns.
        codec: Its chat template.
        processes: Of the run.
        folder: The run directory.

    Raises:
        RagenError: It is not available.
    """
    max_tokens = config.rollout.max_tokens
    if config.engine == "transformers":
        precision = torch.bfloat16 if config.update.precision == "bfloat16" else None
        return TransformersEngine(policy, codec.stop_token_ids, codec.pad, max_tokens, precision)
    if processes > 1:
        raise RagenError(
            f"engine is {config.engine}, which runs with one process of the trainer, not {processes}"
        )
    from ragen_agents.engines.vllm_engine import VllmEngine

    if config.engine == "vllm-server":
        model = _served(config, policy, folder)
        return VllmEngine(model, codec.stop_token_ids, max_tokens, run=f"{uuid.uuid4().hex[:8]}-")
    from ragen_agents.engines.vllm_api import LocalModel

    settings = config.vllm
    local = LocalModel(model_source(config.model), settings.precision, settings.cache_gib)
    return VllmEngine(local, codec.stop_token_ids, max_tokens)


def _served(config: TrainConfig, policy: Any, folder: Path) -> Any:
    from ragen_agents.engines.vllm_server import ServedModel
    from ragen_agents.policies.endpoint.endpoint_settings import check_base_url

    server = config.server
    shared = folder if server.folder is None else Path(server.folder)
    return ServedModel(
        check_base_url(server.url), shared, policy.config.vocab_size,
        policy.config.max_position_embeddings, server.timeout, server.outage_timeout,
    )  # fmt: skip
