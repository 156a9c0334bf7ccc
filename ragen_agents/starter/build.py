"""Make the starter model from nothing: demonstrations, tokenizer, weights, card."""

import json
import multiprocessing
import random
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from ragen_agents.starter.demonstrations import Messages, demonstrate
from ragen_agents.starter.names import NOUNS
from ragen_agents.starter.tokenizer import CHAT_TEMPLATE, build_tokenizer

IGNORED: Final = -100
_CHUNK: Final = 500


@dataclass(frozen=True)
class Recipe:
    """How the starter model is made. The shipped one is made by the defaults."""

    seed: int = 0
    demonstrations: int = 80_000
    """Episodes; each is seen once."""
    batch_size: int = 16
    learning_rate: float = 2.5e-3
    """Peak; warmed up over 2% of the steps, then cosine decay to a tenth."""
    hidden_size: int = 128
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    intermediate_size: int = 384


def demonstrations(recipe: Recipe) -> list[Messages]:
    """Return the training chats, made in parallel; the same for any number of processes."""
    chunks = [(recipe.seed, k) for k in range(-(-recipe.demonstrations // _CHUNK))]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        made = pool.map(_demonstrate_chunk, chunks, chunksize=1)
    return [chat for chunk in made for chat in chunk][: recipe.demonstrations]


def _demonstrate_chunk(which: tuple[int, int]) -> list[Messages]:
    rng = np.random.default_rng(which)
    return [demonstrate(rng) for _ in range(_CHUNK)]


def tokenizer_texts(chats: list[Messages]) -> Iterator[str]:
    """Yield what the tokenizer is trained on: the games' texts, but none of the made-up names."""
    markup = re.compile(r"</?\w+>| \|\| ")
    seen_bandit = False
    for chat in chats:
        bandit = "bandit" in chat[0]["content"]
        if not (bandit and seen_bandit):
            yield from (markup.sub("\n", message["content"]) for message in chat)
        seen_bandit |= bandit
        yield from ("system", "user", "assistant")
    yield from NOUNS
    yield from NOUNS


def encode(chat: Messages, tokenizer: PreTrainedTokenizerFast) -> dict[str, list[int]]:
    """Return the token ids of a chat and its labels, which ignore the system message.

    The user's messages are learned too: predicting where a board's rows end and which names come back
    teaches a model of this size to read them, which the replies alone take far longer to do.
    """
    ids: list[int] = tokenizer.apply_chat_template(chat, return_dict=False)
    system: list[int] = tokenizer.apply_chat_template(chat[:1], return_dict=False)
    return {"input_ids": ids, "labels": [IGNORED] * len(system) + ids[len(system) :]}


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


def build(folder: Path, recipe: Recipe, console: Console) -> None:
    """Make the model and write it to a new folder, or replace an earlier build there."""
    from datasets import Dataset
    from transformers import set_seed
    from trl import SFTConfig, SFTTrainer

    started = time.monotonic()
    random.seed(recipe.seed)
    set_seed(recipe.seed)
    console.print(f"1/3 writing {recipe.demonstrations} demonstrations")
    chats = demonstrations(recipe)
    console.print(f"2/3 training the tokenizer ({time.monotonic() - started:.0f} s so far)")
    tokenizer = build_tokenizer(tokenizer_texts(chats[:4000]))
    data = Dataset.from_list([encode(chat, tokenizer) for chat in chats])
    model = new_model(recipe, tokenizer)
    console.print(
        f"3/3 training {model.num_parameters():,} parameters on "
        f"{sum(map(len, data['input_ids'])):,} tokens ({time.monotonic() - started:.0f} s so far)"
    )
    work = folder.with_name(folder.name + ".building")
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(work),
            per_device_train_batch_size=recipe.batch_size,
            num_train_epochs=1,
            learning_rate=recipe.learning_rate,
            lr_scheduler_type="cosine_with_min_lr",
            lr_scheduler_kwargs={"min_lr_rate": 0.1},
            warmup_steps=0.02,
            weight_decay=0.01,
            adam_beta2=0.98,
            max_grad_norm=1.0,
            bf16=True,
            use_cpu=True,
            max_length=None,
            train_sampling_strategy="group_by_length",
            dataset_kwargs={"skip_prepare_dataset": True},
            gradient_checkpointing=False,
            save_strategy="no",
            report_to="none",
            logging_steps=100,
            seed=recipe.seed,
            disable_tqdm=not console.is_terminal,
        ),
        train_dataset=data,
        processing_class=tokenizer,
    )
    trainer.train()
    _write(folder, work, model, tokenizer, recipe, time.monotonic() - started)
    console.print(f"wrote {folder} after {time.monotonic() - started:.0f} s")


def _write(
    folder: Path, work: Path, model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe, seconds: float,
) -> None:  # fmt: skip
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    model.config.use_cache = True  # trainers switch it off
    model.float().save_pretrained(work)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(work)
    record = {"recipe": asdict(recipe), "seconds": round(seconds)}
    (work / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.copy(Path(__file__).with_name("card.md"), work / "README.md")
    shutil.rmtree(folder, ignore_errors=True)
    work.rename(folder)
