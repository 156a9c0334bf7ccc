"""A causal language model of the transformers library as a policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessor, LogitsProcessorList
from transformers.utils import logging as transformers_logging

from ragen_agents.policies.base import Reply, Request, Sampling
from ragen_envs.errors import RagenError

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")


class SeededSampler(LogitsProcessor):
    """Samples by itself, one uniform draw a row and step, and leaves only the chosen token possible.

    A row's tokens depend on its own seed and not on its place in the batch, which a generator shared by
    the batch cannot give.
    """

    def __init__(
        self, seeds: Sequence[int], temperature: float, prompt_length: int, steps: int
    ) -> None:
        self._draws = np.stack([np.random.default_rng(seed).random(steps) for seed in seeds])
        self._temperature = temperature
        self._prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores (rows, vocabulary): 0 for the drawn token, else minus infinity."""
        step = input_ids.shape[1] - self._prompt_length
        draws = torch.from_numpy(self._draws[:, step]).to(scores.device)
        chances = torch.softmax(scores.double() / self._temperature, dim=-1).cumsum(dim=-1)
        drawn = (chances <= (draws * chances[:, -1]).unsqueeze(1)).sum(dim=-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn, 0.0)


class TransformersPolicy:
    """Batched generation from a local or hub model with a chat template.

    Args:
        model: Folder of a saved model, or a hub id.
        sampling: How to decode.
        name: How tables call it; the folder's name by default.
        batch_size: Conversations generated together.
        device: "cpu", "cuda", or "auto" for the GPU if there is one.
        dtype: "float32", "bfloat16", "float16", or "auto": float32 on the CPU, else bfloat16.

    Raises:
        RagenError: The folder holds no weights, or the model has no chat template.
    """

    def __init__(
        self,
        model: str | Path,
        sampling: Sampling,
        name: str | None = None,
        batch_size: int = 128,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        _check_folder(Path(model))
        transformers_logging.disable_progress_bar()
        self.name = name or Path(model).name
        self.batch_size = batch_size
        self.sampling = sampling
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if dtype == "auto":
            dtype = "float32" if device == "cpu" else "bfloat16"
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model, padding_side="left")
            self._model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
        except (OSError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise RagenError(f"model '{model}' could not be loaded: {first}") from error
        if self._tokenizer.chat_template is None:
            raise RagenError(f"model '{model}' has no chat template; save one with its tokenizer")
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._model.eval().to(device)
        self._context = int(getattr(self._model.config, "max_position_embeddings", 1 << 30))

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate the replies of at most ``batch_size`` requests together."""
        prompts = [self._encode(request.messages) for request in requests]
        room = self._context - self.sampling.max_tokens
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) <= room]
        replies = [Reply("", len(prompt), 0, overflow=True) for prompt in prompts]
        if fits:
            generated = self._generate([prompts[i] for i in fits], [requests[i].seed for i in fits])
            for i, reply in zip(fits, generated, strict=True):
                replies[i] = reply
        return replies

    def _encode(self, messages: list[dict[str, str]]) -> list[int]:
        ids: list[int] = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        return ids

    @torch.inference_mode()
    def _generate(self, prompts: list[list[int]], seeds: list[int]) -> list[Reply]:
        batch = self._tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        batch = batch.to(self._model.device)
        length = batch["input_ids"].shape[1]
        limit = self.sampling.max_tokens
        processors = LogitsProcessorList()
        if self.sampling.temperature > 0:
            processors.append(SeededSampler(seeds, self.sampling.temperature, length, limit))
        output = self._model.generate(
            **batch,
            max_new_tokens=limit,
            do_sample=False,
            use_cache=True,
            temperature=None, top_p=None, top_k=None,
            logits_processor=processors,
            pad_token_id=self._tokenizer.pad_token_id,
        )  # fmt: skip
        ends = self._end_tokens()
        return [
            self._reply(prompt, row, ends)
            for prompt, row in zip(prompts, output[:, length:].tolist(), strict=True)
        ]

    def _end_tokens(self) -> set[int]:
        eos = self._model.generation_config.eos_token_id
        listed = eos if isinstance(eos, list) else [eos]
        return {token for token in [*listed, self._tokenizer.eos_token_id] if token is not None}

    def _reply(self, prompt: list[int], row: list[int], ends: set[int]) -> Reply:
        end = next((i for i, token in enumerate(row) if token in ends), None)
        tokens = row if end is None else row[:end]
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        written = len(tokens) + (end is not None)
        return Reply(text, len(prompt), written, cut_off=end is None)


def _check_folder(folder: Path) -> None:
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors)")
