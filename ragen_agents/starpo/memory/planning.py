"""Gather what a memory plan needs: the model's config, the lengths of conversations, the device."""

import os
from functools import cache, partial
from typing import Any

import psutil  # type: ignore[import-untyped]
import torch
from accelerate import Accelerator
from huggingface_hub import try_to_load_from_cache
from transformers import AutoTokenizer

from ragen_agents.engines.vllm.memory import MemoryNeeds, needs_of
from ragen_agents.model_files.source import local_folder, model_source
from ragen_agents.rollout.chat import FULL, ChatCodec, saved_stops
from ragen_agents.rollout.conversation_length import longest_conversation
from ragen_agents.starpo.config import TrainConfig
from ragen_agents.starpo.memory.fitting import Planner, fitted, refusal
from ragen_agents.starpo.memory.model_shape import UnknownShapeError, read_config, shape_of
from ragen_agents.starpo.memory.training_memory import Conversations, Device, MemoryPlan, plan_memory
from ragen_agents.starpo.processes import from_all
from ragen_agents.starpo.setup import MakeEnv
from ragen_agents.starter import STARTER
from ragen_envs.errors import RagenError


def this_device() -> Device:
    """Return the GPU of this process, or if there is none its share of the machine."""
    if torch.cuda.is_available():
        return Device(int(torch.cuda.get_device_properties(None).total_memory), True)
    sharing = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun
    return Device(int(psutil.virtual_memory().total) // sharing, False)


def fitted_to_device(
    config: TrainConfig, make_env: MakeEnv, accelerator: Accelerator, *, own_engine: bool
) -> TrainConfig:
    """Return a config whose micro-batches fit the devices of all processes; see `fitted`.

    They are the same in every process, for each passes its share of them. A model whose memory cannot be
    planned is left to try.

    Raises:
        RagenError: There is no such model, or it does not fit; the message says with which settings it would.
    """
    own = this_device()
    smallest = Device(min(from_all(own.memory, accelerator)), own.is_cuda)
    try:
        sizes = Sizes(config, make_env, download=True)
    except UnknownShapeError:
        return config
    planner = sizes.on(smallest, accelerator.num_processes, own_engine)
    if (refused := refusal(config, planner)) is not None:
        raise RagenError(f"{refused} (ragen train --plan shows what takes it)")
    return fitted(config, planner)


class Sizes:
    """Plans the memory of configs that have the same model and game.

    With ``download`` a hub's model may be asked for its config and tokenizer; ``model`` is a transformers
    config in place of that of ``config.model``.
    """

    def __init__(
        self, config: TrainConfig, make_env: MakeEnv, download: bool = False, model: Any | None = None
    ) -> None:
        self._model = read_config(config.model, download) if model is None else model
        self.shape = shape_of(self._model)
        tokenizer = _own_tokenizer(config.model, download) if model is None else None
        self.has_tokenizer = tokenizer is not None
        """Whether lengths are those of the model's tokenizer, and not of the starter's."""
        stops: frozenset[int] = frozenset()
        if tokenizer is None:
            tokenizer = AutoTokenizer.from_pretrained(STARTER)
        else:
            stops = saved_stops(model_source(config.model), self._model, tokenizer, download)
        self._codec = ChatCodec(tokenizer, stops)
        self._make_env = make_env
        self.conversations = cache(self._conversations)
        """Lengths of conversations, by the most tokens of a reply."""
        self._needs = cache(partial(needs_of, self._model))

    def on(self, device: Device, devices: int = 1, own_engine: bool = False) -> Planner:
        """Return a planner of configs for devices."""

        def plan(config: TrainConfig) -> MemoryPlan:
            lengths = self.conversations(config.rollout.max_tokens)
            vllm = None
            if config.engine == "vllm" and not own_engine:
                vllm = self._vllm(config, lengths.whole, device.is_cuda)
            return plan_memory(
                config, self.shape, lengths, device, devices=devices, vllm=vllm,
                own_engine=own_engine,
            )  # fmt: skip

        return plan

    def _vllm(self, config: TrainConfig, longest: int, is_cuda: bool) -> MemoryNeeds:
        precision = config.vllm.precision
        if precision == "auto":
            precision = "bfloat16" if is_cuda else "float32"
        context = min(self.shape.context, config.vllm.max_model_len or longest)
        return self._needs(precision, context, config.most_episodes)

    def _conversations(self, max_tokens: int) -> Conversations:
        env, codec = self._make_env(), self._codec
        whole = min(self.shape.context, longest_conversation(env, codec, max_tokens))
        env.reset(seed=0)
        prompt = min(len(codec.start(env.messages, env.settings.prefix)), whole - 1)
        grows = codec.appends and env.settings.history == FULL
        return Conversations(prompt, whole, 1 if grows else env.settings.max_turns)


def _own_tokenizer(name: str, download: bool) -> Any | None:
    """Return a model's tokenizer, or None for a folder without one and if a hub's is not here."""
    folder = local_folder(name)
    if folder is not None and not any(folder.glob("tokenizer*")):
        return None
    source = model_source(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False, local_files_only=not download
        )
    except Exception:  # whatever a stranger's file makes transformers raise; loading the model names it
        return None
    # From a hub's config alone, transformers makes an empty one.
    is_here = folder is not None or isinstance(try_to_load_from_cache(source, "tokenizer_config.json"), str)
    return tokenizer if is_here else None
