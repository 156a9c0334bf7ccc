"""Build what a training run needs from its config: devices, conversations, the reference policy."""

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from torch import nn

from ragen_agents.engines.device import warn_of_slow_bfloat16
from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo.config import TrainConfig, check_split
from ragen_agents.starpo.update.models import ActorCritic
from ragen_agents.starpo.update.passes import trunk_of
from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.levels.splits import VALIDATION

MakeEnv = Callable[[], ConversationWrapper]
_WAITS: Final = 3600.0
"""Seconds that processes wait for the slowest of them; its rollouts may take so much longer."""


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Return the device and the processes of a run; warn if its arithmetic is slow there."""
    # A process may wait for one whose server is being started anew.
    patience = timedelta(seconds=_WAITS + config.server.outage_timeout)
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=patience)],
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
    """Check that the first prompt and one reply fit the engine, that instances exist, and that seeds count."""
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
    _check_seeded(env)
    needed = len(codec.start(env.messages, env.settings.prefix)) + config.rollout.max_tokens
    if needed > context:
        reader = "vLLM" if context == config.vllm.max_model_len else "the model"
        raise RagenError(
            f"{reader} reads {context} tokens, but the game's first prompt and a reply of "
            f"rollout.max_tokens={config.rollout.max_tokens} take {needed}"
        )


def _check_seeded(env: ConversationWrapper) -> None:
    """Check that a conversation that began with the seed 0 begins so again, as members of a group must."""
    before = env.messages
    env.reset(seed=0)
    if env.messages != before:
        raise RagenError(
            f"{type(env.unwrapped).__name__} begins differently with the same seed, but the members of a "
            "group must begin alike: draw all random numbers from the seed that reset receives"
        )
