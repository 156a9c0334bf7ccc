"""What a training run is made of, from its config: devices, conversations, the reference policy."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator

from ragen_agents.rollout.chat import ChatCodec
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.update.models import ActorCritic
from ragen_envs.conversation import ConversationWrapper, make
from ragen_envs.errors import InstanceError, RagenError
from ragen_envs.splits import VALIDATION

MakeEnv = Callable[[], ConversationWrapper]


def make_accelerator(config: TrainConfig) -> Accelerator:
    """Return the device and the processes of a run.

    Raises:
        RagenError: The processes cannot share the groups equally.
    """
    precision = "bf16" if config.update.precision == "bfloat16" else "no"
    accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
    world, count = accelerator.num_processes, config.rollout.prompts_per_iteration
    if count % world:
        raise RagenError(
            f"rollout.prompts_per_iteration is {count}, but must be a multiple of the {world} processes"
        )
    return accelerator


def env_factory(config: TrainConfig, env: Callable[[], Any] | None) -> MakeEnv:
    """Return what makes the conversations of a run.

    Args:
        config: The run's; without ``env`` its game and ``env_kwargs`` are made.
        env: Makes a conversation, or a game with a text face, which is then wrapped with ``env_kwargs``.
    """

    def make_env() -> ConversationWrapper:
        if env is not None:
            made = env()
            if isinstance(made, ConversationWrapper):
                return made
            return make(made, **config.env_kwargs)
        return make(config.game, **config.env_kwargs)

    return make_env


def names_of_parts(**parts: object | None) -> dict[str, str]:
    """Return the names of the parts that a caller has passed, by kind."""
    return {
        kind: ".".join(
            getattr(part, name, getattr(type(part), name))
            for name in ("__module__", "__qualname__")
        )
        for kind, part in parts.items()
        if part is not None
    }


def frozen_reference(config: TrainConfig, policy: Any) -> ActorCritic | None:
    """Return a frozen copy of the initial policy if a divergence from it is charged."""
    if config.loss.kl == "none" or config.loss.kl_coef == 0:
        return None
    frozen = ActorCritic(copy.deepcopy(policy), None, config.rollout.temperature)
    return frozen.requires_grad_(False).eval()


def check_fits(config: TrainConfig, make_env: MakeEnv, codec: ChatCodec, context: int) -> None:
    """Check that the first prompt and one reply fit the model, and that the instances exist.

    Args:
        config: The run's.
        make_env: Makes a conversation.
        codec: The model's chat template.
        context: Most tokens that the model can read.

    Raises:
        RagenError: They do not.
    """
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
    needed = len(codec.start(env.messages)) + config.rollout.max_tokens
    if needed > context:
        raise RagenError(
            f"the model reads {context} tokens, but the game's first prompt and a reply of "
            f"rollout.max_tokens={config.rollout.max_tokens} take {needed}"
        )
