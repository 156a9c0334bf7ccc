"""Build the starter model from scratch: demonstrations, tokenizer, weights, card.

Its tokenizer splits text into pieces, within which tokens are merged. A piece is a run of words or a single
other character, and merges cross words and the commas between them (as in SuperBPE, Liu et al. 2025), so the
sentences that every prompt repeats become few tokens, while each board symbol, digit and punctuation mark
stays a token of its own. Any other text falls back to pieces and, in the end, to bytes.
"""

import json
import logging
import multiprocessing
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from multiprocessing.pool import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from tokenizers import Tokenizer, models
from torch.nn.functional import cross_entropy
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2ForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

from ragen_agents.model_files.folders import save_tokenizer
from ragen_agents.run_files.files import new_folder
from ragen_agents.sft_trainer import IGNORED, padded
from ragen_agents.starter.blank import CHAT_TEMPLATE, as_llama, new_model, trained_on, with_chat_template
from starter_build.demonstrations import WORDS, Demonstration, Messages, demonstrate
from starter_build.recipe import Recipe, Stage

Weights = dict[str, torch.Tensor]
_RECIPE: Final = "recipe.json"
_LOG: Final = logging.getLogger("ragen.starter")
_CHUNK: Final = 500
_TOKENIZER_CHATS: Final = 4000
VOCABULARY: Final = 2432
_RUN: Final = r"[a-z]+(?:(?: \(?|[;,] |-)[a-z]+\)?)*"
_PIECES: Final = (
    rf"[A-Z]?{_RUN}"  # words; a capitalised word begins a run of its own
    rf"| {_RUN}| [0-9]"
    r"|[.,:] (?=[A-Za-z])|[\s\S]"
)


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train the tokenizer on texts and return it with its chat template; deterministic."""
    return with_chat_template(trained_on(Tokenizer(models.BPE()), texts, _PIECES, VOCABULARY), 2048)


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
    model = new_model(
        tokenizer, recipe.hidden_size, recipe.layers, recipe.intermediate_size, recipe.heads, recipe.kv_heads
    )
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
