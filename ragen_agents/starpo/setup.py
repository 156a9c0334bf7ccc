"""Build what a training run needs from its config: devices, conversations, reference policy, engine."""

import copy
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from torch import nn

from ragen_agents.engines import Engine
from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.engines.device import warn_of_slow_bfloat16
from ragen_agents.engines.weights import PROBE_LENGTH
from ragen_agents.model_files.source import model_source
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.rollout.conversation_length import longest_conversation
from ragen_agents.starpo.config import TrainConfig, check_split
from ragen_agents.starpo.processes import RunProcesses
from ragen_agents.starpo.update.learner import Learner
from ragen_agents.starpo.update.models import ActorCritic
from ragen_agents.starpo.update.passes import trunk_of
from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.levels.splits import VALIDATION

MakeEnv = Callable[[], ConversationWrapper]
_VLLM_MEMORY: Final = (
    "lower vllm.cache_gib, vllm.max_model_len or rollout.max_tokens, or update.max_tokens_per_micro_batch if "
    "the trainer takes the memory, or use engine=vllm-server on another device"
)
_WAITS: Final = 3600.0
"""Seconds that processes wait for the slowest of them; its rollouts may take so much longer."""


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Return the device and the processes of a run; warn if its arithmetic is slow there."""
    # A process may wait for one whose server is being started anew.
    patience = timedelta(seconds=_WAITS + config.server.outage_timeout)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(), kwargs_handlers=[InitProcessGroupKwargs(timeout=patience)]
    )
    check_shares(config, accelerator.num_processes)
    if config.update.precision == "bfloat16" and accelerator.is_main_process:
        warn_of_slow_bfloat16("update.precision", accelerator.device)
    return accelerator


def check_shares(config: TrainConfig, processes: int) -> None:
    """Check that processes can share the groups of an iteration equally."""
    count = config.rollout.prompts_per_iteration
    if count % processes:
        raise RagenError(
            f"rollout.prompts_per_iteration is {count}, but must be a multiple of the {processes} processes"
        )


def env_factory(config: TrainConfig, env: Callable[[], Any] | None) -> MakeEnv:
    """Return a function that makes the conversations of a run."""

    def make_env() -> ConversationWrapper:
        made = make(config.game, **config.env_kwargs) if env is None else _unchecked(env())
        if not isinstance(made, ConversationWrapper):
            made = make(made, **config.env_kwargs)
        check_split(made.unwrapped)
        return made

    return make_env


def _unchecked(made: Any) -> Any:
    """Return a conversation without the checks that ``gymnasium.make`` wraps around it."""
    layer = made
    while isinstance(layer, OrderEnforcing | PassiveEnvChecker):
        layer = layer.env
    return layer if isinstance(layer, ConversationWrapper) else made


def frozen_reference(config: TrainConfig, policy: Any, device: torch.device) -> ActorCritic | None:
    """Return a frozen copy of the initial policy if a divergence from it is charged.

    A policy with adapters needs none: without them it is what it was. Under bfloat16 the weights of linear
    layers are held in it, to which autocast would round them in each pass anyway.
    """
    if not config.charges_divergence or config.lora is not None:
        return None
    float32_head = config.has_float32_head(device.type == "cuda")
    frozen = ActorCritic(copy.deepcopy(policy), None, config.rollout.temperature, float32_head)
    if config.update.precision == "bfloat16":
        for module in trunk_of(frozen.policy).modules():
            if isinstance(module, nn.Linear):
                module.bfloat16()
    return frozen.requires_grad_(False).eval()


def check_fits(config: TrainConfig, make_env: MakeEnv, codec: ChatCodec, context: int) -> None:
    """Check that first prompt and one reply fit the engine, that instances exist, and that seeds count."""
    env, evaluation = make_env(), config.evaluation
    if evaluation.every:
        try:
            env.reset(options={"split": VALIDATION, "index": evaluation.episodes - 1})
        except InstanceError as error:
            raise RagenError(
                f"evaluation.episodes is {evaluation.episodes}, but {error}; evaluation.every=0 trains "
                "without evaluation"
            ) from error
    env.reset(seed=0)
    first = env.messages
    env.reset(seed=0)
    if env.messages != first:
        raise RagenError(
            f"{type(env.unwrapped).__name__} begins differently with the same seed, but the members of a "
            "group must begin alike: draw all random numbers from the seed that reset receives"
        )
    needed = len(codec.start(env.messages, env.settings.prefix)) + config.rollout.max_tokens
    if needed > context:
        reader = "vLLM" if context == config.vllm.max_model_len else "the model"
        raise RagenError(
            f"{reader} reads {context} tokens, but the game's first prompt and a reply of "
            f"rollout.max_tokens={config.rollout.max_tokens} take {needed}"
        )


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
    settings = LocalSettings(
        context, config.most_episodes, given.precision, given.cache_gib,
        given.gpu_memory_utilization, reserved, extra=given.extra, advice=_VLLM_MEMORY,
    )  # fmt: skip
    local = load_local(model_source(config.model), settings)
    return VllmEngine(local, codec.stop_token_ids, max_tokens)


def engine_context(config: TrainConfig, make_env: MakeEnv, codec: ChatCodec, own: int) -> int:
    """Return the most tokens of a conversation that the engine of a config reads."""
    if config.engine == "transformers":
        return own
    wanted = config.vllm.max_model_len
    if wanted is None:
        wanted = longest_conversation(make_env(), codec, config.rollout.max_tokens)
    return min(own, max(wanted, 2 * PROBE_LENGTH))


def server_share(urls: Sequence[str], rank: int, processes: int) -> tuple[list[str], bool]:
    """Return the servers that a process of a run asks, and whether it gives these the weights.

    Every process asks at least one, every server is asked, and exactly one process leads each.
    """
    if len(urls) >= processes:
        return list(urls[rank::processes]), True
    return [urls[rank % len(urls)]], rank < len(urls)


def _served(
    config: TrainConfig, model: Any, codec: ChatCodec, processes: RunProcesses, folder: Path,
    context: int,
) -> Engine:  # fmt: skip
    from ragen_agents.engines.vllm.served import ServedEngine, ServedModel
    from ragen_agents.policies.endpoint.settings import check_base_url

    server = config.server
    urls, leads = server_share([check_base_url(url) for url in server.urls], processes.rank, processes.count)
    vocabulary = model.get_text_config().vocab_size
    servers = [ServedModel(url, vocabulary, server.timeout, server.outage_timeout) for url in urls]
    shared = folder if server.folder is None else Path(server.folder)
    run = processes.from_first(f"{uuid.uuid4().hex[:8]}-")
    return ServedEngine(
        servers, leads, shared, codec.stop_token_ids, config.rollout.max_tokens,
        context, run, processes,
    )  # fmt: skip
