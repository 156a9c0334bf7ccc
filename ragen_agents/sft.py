"""Imitate conversations: the oracle's, the paper's supervised baseline (appendix C), or those of a run."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from safetensors import SafetensorError

from ragen_agents.engines.device import is_out_of_memory
from ragen_agents.model_files.folders import own_context, save_tokenizer
from ragen_agents.rollout.chat import ChatCodec, begun, extend, stop_token_ids
from ragen_agents.rollout.trajectory import Row, Trajectory
from ragen_agents.run_files.files import new_folder, writing
from ragen_agents.starpo.config import check_conversation, check_split
from ragen_envs.conversation import ConversationWrapper, format_reply, make
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.levels.seeding import new_stream

if TYPE_CHECKING:
    from transformers import TrainingArguments

_TRIES: Final = 20
"""Levels tried for each demonstration that is wanted."""


class SftConfig(BaseModel):
    """A supervised run. The defaults are the paper's where it states them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    game: str
    """Id of a conversation env."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keywords of the env, which override those of its id."""
    variants: list[dict[str, Any]] = Field(default_factory=list)
    """Keywords that override ``env_kwargs``, such as ``[{size: 6}, {size: 7}]``, each for an equal share of
    the demonstrations."""
    model: str = "starter"
    """"starter", "smollm2" or another of `ragen models list`, a folder, a GGUF file, or "hf:NAME"."""
    seed: int = Field(0, ge=0, lt=1 << 32)
    """Seed of the demonstrations and of their order in training."""
    demonstrations: int = Field(1000, ge=1)
    """Conversations of the oracle on fresh training levels."""
    source: str | None = None
    """Run and agent that are imitated instead of the oracle; ``ragen sft --from`` sets it."""
    noise: float = Field(0.0, ge=0, le=1)
    """Chance that as many random actions replace the actions of the oracle's turn; the conversation
    continues from there."""
    solved_only: bool = True
    """Whether conversations that do not solve the game are left out. With ``noise=1`` and
    ``solved_only=false`` the model learns only the format of replies."""
    messages: bool = False
    """Whether the loss also covers the game's messages (not the common beginning of all prompts), which
    teaches a model trained from scratch to read them."""
    epochs: int = Field(5, ge=1)
    """Passes over the demonstrations."""
    learning_rate: float = Field(1e-4, gt=0)
    """Peak learning rate, with linear decay (paper: 1e-4)."""
    batch_size: int = Field(128, ge=1)
    """Conversations, or turns where each is a row of its own, per optimizer step (paper: 128); at most
    ``micro_batch``, or a multiple of it."""
    micro_batch: int = Field(16, ge=1)
    """Conversations or turns per forward pass."""
    lora_rank: int = Field(64, ge=0)
    """Rank of the adapters (paper: 64); 0 trains all weights."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the passes; weights stay in float32."""

    @model_validator(mode="after")
    def _check_batch(self) -> "SftConfig":
        if self.batch_size > self.micro_batch and self.batch_size % self.micro_batch:
            raise ValueError(f"batch_size is {self.batch_size}, but must be a multiple of micro_batch")
        return self

    @model_validator(mode="after")
    def _check_conversations(self) -> "SftConfig":
        check_conversation(self.env_kwargs, "env_kwargs.")
        for number, variant in enumerate(self.variants):
            check_conversation(variant, f"variants.{number}.")
        return self


def demonstrations(config: SftConfig, codec: ChatCodec) -> list[Trajectory]:
    """Return conversations of the oracle, or of the noise that replaces it, on fresh training levels."""
    solved: list[Trajectory] = []
    number = 0
    for part, kwargs in enumerate(config.variants or [{}], start=1):
        env = make(config.game, **{**config.env_kwargs, **kwargs})
        check_split(env.unwrapped)
        wanted = config.demonstrations * part // max(1, len(config.variants))
        while len(solved) < wanted and number < _TRIES * config.demonstrations:
            env.reset(seed=new_stream(f"sft {config.seed}", config.game, number))
            rng = np.random.default_rng((config.seed, number))
            number += 1
            trajectory = _play(env, codec, len(solved), config.noise, rng)
            if trajectory.success or not config.solved_only:
                solved.append(trajectory)
    if len(solved) == config.demonstrations:
        return solved
    advice = f"; noise is {config.noise}: lower it, or set solved_only=false" if config.noise else ""
    raise RagenError(
        f"the oracle solved only {len(solved)} of {_TRIES * config.demonstrations} levels of {config.game}, "
        f"but demonstrations is {config.demonstrations}{advice}"
    )


def _play(
    env: ConversationWrapper, codec: ChatCodec, number: int, noise: float, rng: np.random.Generator
) -> Trajectory:
    def reply() -> str | None:
        actions = env.oracle().actions
        if not actions:
            return None
        if rng.random() < noise:
            actions = env.random_actions(rng, len(actions))
        thought = env.explain(actions) if env.settings.think else None
        return format_reply(action_texts(env.names, actions), thought)

    return written_by(env, codec, number, reply)


def written_by(
    env: ConversationWrapper, codec: ChatCodec, number: int, reply: Callable[[], str | None]
) -> Trajectory:
    """Return a conversation as tokens to imitate, of an environment that has been reset.

    ``reply`` returns the next whole turn, or None to end the conversation; trajectories differ in ``number``.
    """
    prefix = env.settings.prefix
    trajectory = begun(codec, env, number, 0)
    while env.end is None and (turn := reply()) is not None:
        messages = env.messages
        written = turn.removeprefix(prefix)
        ids = codec.written(written)
        trajectory.append_reply([*ids, codec.close], [0.0] * (len(ids) + 1))
        trajectory.messages.append({"role": "assistant", "content": turn})
        env.play(written)
        if env.end is None:
            trajectory.messages.append({"role": "user", "content": env.user})
            extend(trajectory, codec, env, messages, written, closed=True)
    trajectory.success = bool(env.success)
    return trajectory


def _check_lengths(rows: Sequence[Row], context: int) -> None:
    longest = max(len(row.ids) for row in rows)
    if longest > context:
        raise RagenError(
            f"the model reads {context} tokens, but the longest conversation has {longest}; set a smaller "
            "env_kwargs.demonstrations or env_kwargs.max_turns, or env_kwargs.history=none, or choose "
            "another model"
        )


def train(config: SftConfig, out: Path, shown: Callable[[ChatCodec], list[Trajectory]] | None = None) -> None:
    """Train and write an ordinary model folder, with adapters merged."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise RagenError("imitation trains in one process; start it without torchrun")
    if out.exists():
        raise RagenError(f"'{out}' already exists; choose another --out")
    with writing(out), new_folder(out) as work:
        _train(config, out, work, shown or partial(demonstrations, config))


def _train(
    config: SftConfig, out: Path, work: Path, make_shown: Callable[[ChatCodec], list[Trajectory]]
) -> None:
    from ragen_agents.sft_trainer import ImitationTrainer, labelled, labelled_all, padded
    from ragen_agents.starpo.update.adapters import with_adapters
    from ragen_agents.starpo.update.models import load_model

    model, tokenizer = load_model(config.model)
    codec = ChatCodec(tokenizer, stop_token_ids(model.generation_config, tokenizer))
    shown = make_shown(codec)
    rows = [row for trajectory in shown for row in trajectory.rows]
    _check_lengths(rows, own_context(model.config))
    # Turns of their own differ in length, conversations hardly.
    args = _arguments(config, work, grouped=len(rows) > len(shown))
    if config.lora_rank:
        model = with_adapters(model, config.lora_rank, config.lora_rank, config.seed)
    # A list serves as a dataset, which the annotation does not say.
    data: Any = labelled_all(rows) if config.messages else [labelled(row) for row in rows]
    trainer = ImitationTrainer(model=model, args=args, train_dataset=data, data_collator=padded)
    try:
        with redirect_stdout(sys.stderr):  # the only output is the folder
            trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise RagenError(
            f"out of memory in training; micro_batch is {config.micro_batch}, lower it"
        ) from error
    if not all(weight.isfinite().all() for weight in model.parameters()):
        raise RagenError(
            f"training diverged: the weights are not finite after it, so nothing is written; learning_rate "
            f"is {config.learning_rate:g}, lower it"
        )
    trained = model.merge_and_unload() if config.lora_rank else model
    try:
        _save(work, config, trained, tokenizer, shown)
    except SafetensorError as error:
        raise RagenError(f"'{out}' cannot be written: {error}") from error


def _arguments(config: SftConfig, work: Path, grouped: bool) -> "TrainingArguments":
    """Return the arguments of the run; ``grouped`` trains on rows of about equal length at a time."""
    import torch
    from transformers import TrainingArguments, set_seed

    from ragen_agents.engines.device import warn_of_slow_bfloat16

    set_seed(config.seed)
    micro = min(config.micro_batch, config.batch_size)
    args = TrainingArguments(
        output_dir=str(work),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=config.batch_size // micro,
        num_train_epochs=config.epochs,
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        bf16=config.precision == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        save_strategy="no",
        report_to="none",
        logging_steps=5,
        logging_nan_inf_filter=False,  # else a loss that is not finite is shown as 0
        train_sampling_strategy="group_by_length" if grouped else "random",
        seed=config.seed,
    )
    if args.bf16:
        warn_of_slow_bfloat16("precision", args.device)
    # With several GPUs the trainer would multiply the batch by their number, but all passes run on the first.
    args._n_gpu = min(args.n_gpu, 1)
    return args


def _save(folder: Path, config: SftConfig, model: Any, tokenizer: Any, shown: Sequence[Trajectory]) -> None:
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    (folder / "sft.json").write_text(config.model_dump_json(indent=1) + "\n", encoding="utf-8")
    with (folder / "demonstrations.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"messages": each.messages}) + "\n" for each in shown)
