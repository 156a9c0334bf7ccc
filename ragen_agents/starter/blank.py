"""A small model without training, whose tokenizer knows the texts of one game."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragen_agents.model_files.folders import save_tokenizer
from ragen_agents.run_files.files import new_folder
from ragen_agents.starpo.config import check_conversation
from ragen_envs.conversation import format_reply, make
from ragen_envs.errors import RagenError
from ragen_envs.game.text import action_texts
from ragen_envs.levels.seeding import new_stream

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
    from transformers import set_seed

    from ragen_agents.starter.model_build import as_llama, new_model
    from ragen_agents.starter.recipe import Recipe
    from ragen_agents.starter.tokenizer import CONTEXT, build_word_tokenizer

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
