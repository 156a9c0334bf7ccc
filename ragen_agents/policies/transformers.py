"""A causal language model of the transformers library as a policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from ragen_agents.engines.decoding import Decoder, Sample, end_tokens
from ragen_agents.policies.base import Reply, Request, Sampling
from ragen_envs.errors import RagenError

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")


class TransformersPolicy:
    """Batched generation from a local or hub model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
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
        source: str | Path,
        sampling: Sampling,
        name: str | None = None,
        batch_size: int = 128,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        _check_folder(Path(source))
        transformers_logging.disable_progress_bar()
        self.name = name or Path(source).name
        self.batch_size = batch_size
        self.sampling = sampling
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if dtype == "auto":
            dtype = "float32" if device == "cpu" else "bfloat16"
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source)
            model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
        except (OSError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise RagenError(f"model '{source}' could not be loaded: {first}") from error
        if self._tokenizer.chat_template is None:
            raise RagenError(f"model '{source}' has no chat template; save one with its tokenizer")
        model.eval().to(device)
        self._context = int(getattr(model.config, "max_position_embeddings", 1 << 30))
        ends = end_tokens(model, self._tokenizer)
        pad = self._tokenizer.pad_token_id or 0
        self._decoder = Decoder(model, ends, pad, sampling.temperature, sampling.max_tokens)

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate the replies of at most ``batch_size`` requests together."""
        prompts = [self._encode(request.messages) for request in requests]
        room = self._context - self.sampling.max_tokens
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) <= room]
        replies = [Reply("", len(prompt), 0, overflow=True) for prompt in prompts]
        if fits:
            chunks, seeds = [prompts[i] for i in fits], [requests[i].seed for i in fits]
            samples, _ = self._decoder.run(chunks, seeds)
            for i, sample in zip(fits, samples, strict=True):
                replies[i] = self._reply(prompts[i], sample)
        return replies

    def _encode(self, messages: list[dict[str, str]]) -> list[int]:
        ids: list[int] = self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
        return ids

    def _reply(self, prompt: list[int], sample: Sample) -> Reply:
        stopped = sample.finish == "stop"
        tokens = sample.ids[:-1] if stopped else sample.ids
        text = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return Reply(text, len(prompt), len(sample.ids), cut_off=not stopped)


def _check_folder(folder: Path) -> None:
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors)")
