"""Which engine a run's rollouts come from."""

import uuid
from pathlib import Path
from typing import Any

from ragen_agents.engines import Engine
from ragen_agents.engines.transformers_engine import TransformersEngine
from ragen_agents.engines.weights import PROBE_LENGTH
from ragen_agents.model_source import model_source
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.conversation_length import longest_conversation
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.setup import MakeEnv
from ragen_envs.errors import RagenError


def make_engine(
    config: TrainConfig,
    policy: Any,
    codec: ChatCodec,
    processes: int,
    folder: Path,
    *,
    context: int,
    reserved: int,
) -> Engine:
    """Make the engine that a config names.

    Args:
        config: The run's.
        policy: The model that learns.
        codec: Its chat template.
        processes: Of the run.
        folder: The run directory.
        context: Most tokens of a conversation; see `engine_context`.
        reserved: Bytes that the trainer will take later on the device.

    Raises:
        RagenError: It is not available.
    """
    max_tokens = config.rollout.max_tokens
    if config.engine == "transformers":
        return TransformersEngine(policy, codec.stop_token_ids, codec.pad, max_tokens)
    if processes > 1:
        raise RagenError(
            f"engine is {config.engine}, which runs with one process of the trainer, not {processes}"
        )
    from ragen_agents.engines.vllm_engine import VllmEngine

    if config.engine == "vllm-server":
        model = _served(config, policy, folder)
        return VllmEngine(model, codec.stop_token_ids, max_tokens, run=f"{uuid.uuid4().hex[:8]}-")
    from ragen_agents.engines.vllm_local import LocalSettings, load_local

    given = config.vllm
    evaluated = config.evaluation.episodes if config.evaluation.every else 0
    settings = LocalSettings(
        context, max(config.episodes, evaluated), given.precision, given.cache_gib,
        given.gpu_memory_utilization, reserved,
    )  # fmt: skip
    local = load_local(model_source(config.model), settings)
    return VllmEngine(local, codec.stop_token_ids, max_tokens)


def engine_context(config: TrainConfig, make_env: MakeEnv, codec: ChatCodec, own: int) -> int:
    """Return the most tokens of a conversation that the engine of a config reads.

    Args:
        config: The run's.
        make_env: Makes a conversation.
        codec: The model's chat template.
        own: The model's context.
    """
    if config.engine != "vllm":
        return own
    wanted = config.vllm.max_model_len
    if wanted is None:
        wanted = longest_conversation(make_env(), codec, config.rollout.max_tokens)
    return min(own, max(wanted, 2 * PROBE_LENGTH))


def _served(config: TrainConfig, policy: Any, folder: Path) -> Any:
    from ragen_agents.engines.vllm_server import ServedModel
    from ragen_agents.policies.endpoint.endpoint_settings import check_base_url

    server = config.server
    shared = folder if server.folder is None else Path(server.folder)
    return ServedModel(
        check_base_url(server.url), shared, policy.config.vocab_size,
        policy.config.max_position_embeddings, server.timeout, server.outage_timeout,
    )  # fmt: skip
