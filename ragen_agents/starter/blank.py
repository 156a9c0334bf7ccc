"""Write untrained models with a tokenizer for one game: byte-level BPE on its texts.

The tokenizer has a token for each word, name with a number and repeated line. Text is read in
lower case, so a word that is asked for and the same word in a title are one token, and what the model
writes is in lower case. A word takes the space that follows it, not the one before it, so a value reads the
same in a list and between brackets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    set_seed,
)
from transformers.utils import logging as transformers_logging

from ragen_agents.model_files.folders import save_tokenizer
from ragen_agents.run_files.files import new_folder
from ragen_agents.starpo.config import check_conversation
from ragen_envs.conversation import format_reply, make
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.text import action_texts
from ragen_envs.levels.seeding import new_stream

_WORD_VOCABULARY: Final = 4096
"""Most tokens, repeated lines not counted."""
CONTEXT: Final = 4096
_WORD_PIECES: Final = r"[a-z]+[0-9]* ?|[0-9]{1,2} ?|[^a-z0-9\s]+ ?|\s"
_REPEATED: Final = 0.1
"""A line is one token if this share of the texts holds it."""
_SHORTEST_LINE: Final = 12
_START, _END, _PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
SPECIAL_TOKENS: Final = (_PAD, _START, _END)
TAGS: Final = ("<think>", "</think>", "<answer>", "</answer>", " || ")

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""ChatML, with the marks that tell trainers which text the model wrote."""
_SHARED: Final = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_parameters",
    "tie_word_embeddings", "eos_token_id", "pad_token_id",
)  # fmt: skip
"""Settings that the configs of Llama and Qwen2 have in common."""
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
    model = new_model(tokenizer, width, config.layers, intermediate=2 * width)
    model.config.max_position_embeddings = CONTEXT
    transformers_logging.disable_progress_bar()
    with new_folder(out) as work:
        as_llama(model).save_pretrained(work)
        save_tokenizer(tokenizer, work)
        (work / "blank.json").write_text(config.model_dump_json(indent=1) + "\n", encoding="utf-8")


def conversations(config: BlankConfig) -> list[str]:
    """Return conversations of an oracle that errs, or of random play without one, each as one text."""
    env = make(config.game, **config.env_kwargs)
    rng = np.random.default_rng(config.seed)
    texts = []
    for number in range(config.conversations):
        env.reset(seed=new_stream(f"blank {config.seed}", config.game, number))
        lines = [message["content"] for message in env.messages]
        while env.end is None:
            try:
                actions = env.oracle().actions
            except SolverLimitError:
                actions = ()
            if not actions or rng.random() < _RANDOM:
                actions = env.random_actions(rng, 1)
            thought = env.explain(actions) if env.settings.think else None
            reply = format_reply(action_texts(env.names, actions), thought)
            env.play(reply)
            lines += [reply, env.user]
        texts.append("\n".join(lines))
    return texts


def new_model(
    tokenizer: PreTrainedTokenizerFast,
    hidden: int,
    layers: int,
    intermediate: int,
    heads: int = 4,
    kv_heads: int = 2,
) -> Qwen2ForCausalLM:
    """Return an untrained model."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=-(-len(tokenizer) // 64) * 64,
            hidden_size=hidden,
            intermediate_size=intermediate,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
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

    transformers 5 gives every folder of type qwen2 the pre-tokenizer of Qwen, whatever its ``tokenizer.json``
    says. Under Llama's type `AutoTokenizer` and vLLM read our tokenizer as it is.
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


def trained_on(tokenizer: Tokenizer, texts: Iterable[str], pieces: str, vocabulary: int) -> Tokenizer:
    """Train a tokenizer whose merges stay within pieces, a regular expression, and return it."""
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def with_chat_template(tokenizer: Tokenizer, context: int) -> PreTrainedTokenizerFast:
    """Return a trained tokenizer in transformers' form, with the tags of replies and the chat template."""
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_END,
        pad_token=_PAD,
        padding_side="left",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=context,
    )


def build_word_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Train a tokenizer for one game on its texts, such as whole conversations; with a chat template."""
    lowered = [text.lower() for text in texts]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    fast = with_chat_template(trained_on(tokenizer, lowered, _WORD_PIECES, _WORD_VOCABULARY), CONTEXT)
    lines = repeated_lines(lowered)
    fast.add_tokens([AddedToken(line, normalized=True, special=False) for line in lines])
    return fast


def repeated_lines(texts: Sequence[str]) -> list[str]:
    """Return the lines that many of some texts hold, the longest first."""
    counts = Counter(line for text in texts for line in dict.fromkeys(text.splitlines()))
    often = [line for line, count in counts.items() if count >= _REPEATED * len(texts)]
    fit = [line for line in often if len(line) >= _SHORTEST_LINE and "</" not in line]
    return sorted(fit, key=lambda line: (-len(line), line))
