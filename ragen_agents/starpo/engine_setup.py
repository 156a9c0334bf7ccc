"""Which engine a run's rollouts come from."""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import Accelerator

from ragen_agents.engines import Engine
from ragen_agents.engines.transformers_engine import TransformersEngine
from ragen_agents.model_source import model_source
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.processes import RunProcesses
from ragen_agents.starpo.update.learner import Learner
from ragen_envs.errors import RagenError


def make_engine(
    config: TrainConfig,
    learner: Learner,
    codec: ChatCodec,
    accelerator: Accelerator,
    folder: Path,
) -> Engine:
    """Make the engine that a config names; all processes call this together.

    Args:
        config: The run's.
        learner: Holds the model that learns.
        codec: Its chat template.
        accelerator: The processes of the run.
        folder: The run directory.

    Raises:
        RagenError: It is not available.
    """
    max_tokens = config.rollout.max_tokens
    if config.engine == "transformers":
        policy = learner.whole_policy()
        return TransformersEngine(policy, codec.stop_token_ids, codec.pad, max_tokens)
    if config.engine == "vllm-server":
        model = learner.models.policy.config
        return _served(config, model, codec, RunProcesses(accelerator), folder)
    if accelerator.num_processes > 1:
        raise RagenError(
            f"engine is vllm, which runs with one process of the trainer, not {accelerator.num_processes}; "
            "use vllm-server"
        )
    from ragen_agents.engines.vllm_api import LocalModel
    from ragen_agents.engines.vllm_engine import VllmEngine

    settings = config.vllm
    local = LocalModel(model_source(config.model), settings.precision, settings.cache_gib)
    return VllmEngine(local, codec.stop_token_ids, max_tokens)


class ServerShare(NamedTuple):
    """What a process has to do with the servers."""

    urls: list[str]
    """Those that it asks."""
    leads: bool
    """Whether it gives these the weights."""


def server_share(urls: Sequence[str], rank: int, processes: int) -> ServerShare:
    """Return which of the servers a process of a run asks.

    Every process asks at least one, every server is asked, and exactly one process leads each.
    """
    if len(urls) >= processes:
        return ServerShare(list(urls[rank::processes]), leads=True)
    return ServerShare([urls[rank % len(urls)]], leads=rank < len(urls))


def _served(
    config: TrainConfig, model: Any, codec: ChatCodec, processes: RunProcesses, folder: Path
) -> Engine:
    from ragen_agents.engines.served_engine import ServedEngine
    from ragen_agents.engines.vllm_server import ServedModel
    from ragen_agents.policies.endpoint.endpoint_settings import check_base_url

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
        model.max_position_embeddings, run, processes,
    )  # fmt: skip
