"""Build the starter model from scratch: demonstrations, tokenizer, weights, card."""

import json
import logging
import multiprocessing
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from multiprocessing.pool import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch.nn.functional import cross_entropy
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

from ragen_agents.model_files.folders import save_tokenizer
from ragen_agents.run_files.files import new_folder
from ragen_agents.sft_trainer import IGNORED, padded
from ragen_agents.starpo.config import check_conversation
from ragen_agents.starter.demonstrations import WORDS, Demonstration, Messages, demonstrate
from ragen_agents.starter.recipe import Recipe, Stage
from ragen_agents.starter.tokenizer import CHAT_TEMPLATE, CONTEXT, build_tokenizer, build_word_tokenizer
from ragen_envs.conversation import format_reply, make
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.levels.seeding import new_stream

Weights = dict[str, torch.Tensor]
_RECIPE: Final = "recipe.json"
_LOG: Final = logging.getLogger("ragen.starter")
_CHUNK: Final = 500
_TOKENIZER_CHATS: Final = 4000
_SHARED: Final = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_parameters",
    "tie_word_embeddings", "eos_token_id", "pad_token_id",
)  # fmt: skip
"""Settings that the configs of Llama and Qwen2 have in common."""


def demonstrations(pool: Pool, recipe: Recipe, number: int) -> list[Demonstration]:
    """Return a stage's demonstrations; the same for any number of processes."""
    stage = recipe.stages[number]
    _LOG.info("stage %d of %d: writing demonstrations", number + 1, len(recipe.stages))
    chunks = [
        ((recipe.seed, number, k), min(_CHUNK, stage.demonstrations - start))
        for k, start in enumerate(range(0, stage.demonstrations, _CHUNK))
    ]
    return list(chain(*pool.starmap(partial(_demonstrate_chunk, stage), chunks, chunksize=1)))


def _demonstrate_chunk(stage: Stage, seed: tuple[int, ...], count: int) -> list[Demonstration]:
    rng = np.random.default_rng(seed)
    return [demonstrate(rng, stage.mixture) for _ in range(count)]


def tokenizer_texts(chats: Sequence[Messages]) -> Iterator[str]:
    """Yield the tokenizer's training texts: the games' texts, and the words that name arms once more.

    Names are cut out of the bandits' texts, so that each is merged as one of the words and no more.
    """
    markup = re.compile(r"</?\w+>| \|\| ")
    for chat in chats:
        text = "\n".join(message["content"] for message in chat[1:])
        arms = [name for pair in re.findall(r"Arms: (\w+), (\w+)", text) for name in pair]
        names = re.compile("|".join(arms) if arms else "$^")
        yield from (names.sub("", markup.sub("\n", message["content"])) for message in chat)
        yield from ("system", "user", "assistant")
    yield from WORDS * 200


def encode(
    demonstration: Demonstration, tokenizer: PreTrainedTokenizerFast, replies_only: bool = False
) -> dict[str, list[int]]:
    """Return the token ids of a chat and its labels, which ignore the system message and skipped replies.

    The user's messages are learned too, unless ``replies_only``: predicting where a board's rows end and
    which names come back teaches a model of this size to read them, which the replies alone take far
    longer to do.
    """
    chat, skipped = demonstration
    ids: Any = tokenizer.apply_chat_template(chat, return_dict=False)
    labels = list(ids)
    users = range(1, len(chat), 2) if replies_only else ()
    for message in (0, *users, *range(2, 2 + 2 * skipped, 2)):
        begin, end = (
            len(tokenizer.apply_chat_template(chat[:k], return_dict=False)) if k else 0
            for k in (message, message + 1)
        )
        labels[begin:end] = [IGNORED] * (end - begin)
    return {"input_ids": ids, "labels": labels}


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Return the untrained model."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=-(-len(tokenizer) // 64) * 64,
            hidden_size=recipe.hidden_size,
            intermediate_size=recipe.intermediate_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.kv_heads,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            initializer_range=0.05,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def as_llama(model: Qwen2ForCausalLM) -> LlamaForCausalLM:
    """Return the same function in Llama's layout, with a zero bias where Qwen2 has none.

    transformers 5 gives every folder of type qwen2 the pre-tokenizer of Qwen, whatever its
    ``tokenizer.json`` says. Under Llama's type `AutoTokenizer` and vLLM read our tokenizer as it is.
    """
    given = model.config
    same: dict[str, Any] = {name: getattr(given, name) for name in _SHARED}
    llama = LlamaForCausalLM(LlamaConfig(**same, attention_bias=True, bos_token_id=None))
    weights = model.float().state_dict()
    for layer in range(given.num_hidden_layers):
        name = f"model.layers.{layer}.self_attn.o_proj.bias"
        weights[name] = torch.zeros(given.hidden_size)
    llama.load_state_dict(weights)
    return llama


def build(folder: Path, recipe: Recipe) -> None:
    """Make the model and write it to a new folder, or replace an earlier build there."""
    started = time.monotonic()
    passes: list[Weights] = []
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first = demonstrations(pool, recipe, 0)
        tokenizer = build_tokenizer(tokenizer_texts([each.chat for each in first[:_TOKENIZER_CHATS]]))
        for number, stage in enumerate(recipe.stages):
            shown = demonstrations(pool, recipe, number) if number else first
            one = partial(encode, tokenizer=tokenizer, replies_only=stage.replies_only)
            encoded = pool.map(one, shown, chunksize=_CHUNK)
            tokens = f"{sum(len(row['input_ids']) for row in encoded):,}"
            _LOG.info(
                "stage %d of %d: training on %s tokens (%.0f s so far)",
                number + 1, len(recipe.stages), tokens, time.monotonic() - started,
            )  # fmt: skip
            model = _start(recipe, tokenizer, passes)
            train(model, encoded, recipe, number)
            passes.append(_mean([*passes[number + 1 - stage.averaged :], model.state_dict()]))
    model = _start(recipe, tokenizer, passes)
    _write(folder, model, tokenizer, recipe)
    _LOG.info("wrote %s after %.0f s", folder, time.monotonic() - started)


def _start(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, passes: Sequence[Weights]) -> Qwen2ForCausalLM:
    """Return the model after the last pass, untrained before the first."""
    set_seed(recipe.seed)
    model = new_model(recipe, tokenizer)
    if passes:
        model.load_state_dict(passes[-1])
    return model


def _mean(states: Sequence[Weights]) -> Weights:
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}


class _Trainer(Trainer):
    """Computes logits of the learned tokens alone, which are half of them."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        del args, kwargs
        targets = inputs["labels"][:, 1:]
        hidden = model.model(input_ids=inputs["input_ids"]).last_hidden_state[:, :-1]
        learned = targets != IGNORED
        return cross_entropy(model.lm_head(hidden[learned]), targets[learned])


def train(model: Qwen2ForCausalLM, encoded: list[dict[str, list[int]]], recipe: Recipe, number: int) -> None:
    """Train the model in place on one stage."""
    # A list serves as a dataset, which the annotation does not say.
    data: Any = encoded
    with TemporaryDirectory() as unused:
        args = _arguments(recipe, number, unused)
        _Trainer(model=model, args=args, train_dataset=data, data_collator=padded).train()


def _arguments(recipe: Recipe, number: int, folder: str) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=recipe.stages[number].batch_size,
        num_train_epochs=1,
        learning_rate=recipe.stages[number].learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=0.02,
        weight_decay=0.01,
        adam_beta2=0.98,
        max_grad_norm=1.0,
        use_cpu=True,
        train_sampling_strategy="group_by_length",
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
        logging_steps=100,
        seed=recipe.seed,
        disable_tqdm=not sys.stderr.isatty(),
    )


def _write(folder: Path, model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe) -> None:
    with new_folder(folder) as new:
        as_llama(model).save_pretrained(new)
        tokenizer.chat_template = CHAT_TEMPLATE
        save_tokenizer(tokenizer, new)
        record = json.dumps({"recipe": asdict(recipe)}, indent=1)
        (new / _RECIPE).write_text(record + "\n", encoding="utf-8")
        shutil.copy(Path(__file__).with_name("card.md"), new / "README.md")


_RANDOM: Final = 0.3
"""Chance of a random action in the conversations that the tokenizer is trained on, so that they visit all
kinds of states."""


class BlankConfig(BaseModel):
    """The settings of an untrained model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str
    """Id of a conversation env."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keywords of the env, over those of its id."""
    conversations: int = Field(2000, ge=1)
    """Conversations on training levels that the tokenizer is trained on."""
    layers: int = Field(4, ge=1)
    hidden_size: int = Field(96, ge=8, multiple_of=8)
    """Width of the model, which has four heads."""
    seed: int = Field(0, ge=0)
    """Seed of the conversations and the weights."""

    @model_validator(mode="after")
    def _check_conversations(self) -> "BlankConfig":
        check_conversation(self.env_kwargs, "env_kwargs.")
        return self


def write_blank(config: BlankConfig, out: Path) -> None:
    """Write an untrained model to a new, ordinary model folder."""
    if out.exists():
        raise RagenError(f"'{out}' already exists; choose another --out")
    tokenizer = build_word_tokenizer(conversations(config))
    set_seed(config.seed)
    width = config.hidden_size
    shape = Recipe(hidden_size=width, intermediate_size=2 * width, layers=config.layers)
    model = new_model(shape, tokenizer)
    model.config.max_position_embeddings = CONTEXT
    with new_folder(out) as work:
        as_llama(model).save_pretrained(work)
        save_tokenizer(tokenizer, work)
        (work / "blank.json").write_text(config.model_dump_json(indent=1) + "\n", encoding="utf-8")


def conversations(config: BlankConfig) -> list[str]:
    """Return conversations of an oracle that errs, each as one text."""
    env = make(config.game, **config.env_kwargs)
    rng = np.random.default_rng(config.seed)
    texts = []
    for number in range(config.conversations):
        env.reset(seed=new_stream(f"blank {config.seed}", config.game, number))
        lines = [message["content"] for message in env.messages]
        while env.end is None:
            actions = env.oracle().actions
            if not actions or rng.random() < _RANDOM:
                actions = env.random_actions(rng, 1)
            thought = env.explain(actions) if env.settings.think else None
            reply = format_reply(action_texts(env.names, actions), thought)
            env.play(reply)
            lines += [reply, env.user]
        texts.append("\n".join(lines))
    return texts
