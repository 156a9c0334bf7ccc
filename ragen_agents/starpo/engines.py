"""Which engine a run's rollouts come from."""

from typing import Any

from ragen_agents.engines import Engine
from ragen_agents.engines.transformers import TransformersEngine
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.models import model_source
from ragen_envs.errors import RagenError


def make_engine(config: TrainConfig, policy: Any, codec: ChatCodec, processes: int) -> Engine:
    """Make the engine that a config names.

    Args:
        config: The run's.
        policy: The model that learns.
        codec: Its chat template.
        processes: Of the run.

    Raises:
        RagenError: It cannot be had.
    """
    max_tokens = config.rollout.max_tokens
    if config.engine == "transformers":
        return TransformersEngine(policy, codec.ends, codec.pad, max_tokens)
    if processes > 1:
        raise RagenError(
            f"engine is {config.engine}, which runs with one process of the trainer, not {processes}"
        )
    from ragen_agents.engines.vllm_api import LocalModel
    from ragen_agents.engines.vllm_local import VllmEngine

    settings = config.vllm
    model = LocalModel(model_source(config.model), settings.precision, settings.cache_gib)
    return VllmEngine(model, codec.ends, max_tokens)
