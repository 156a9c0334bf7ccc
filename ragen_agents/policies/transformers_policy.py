"""A causal language model of the transformers library as a policy."""

import logging
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from ragen_agents.chat_template import ChatTemplate
from ragen_agents.engines.cpu.decoding import Decoder, stop_token_ids
from ragen_agents.engines.cpu.prefix_cache import PrefixCache
from ragen_agents.engines.cpu.sampling import Sample
from ragen_agents.engines.device import avoid_cudnn_attention, has_bfloat16, is_out_of_memory
from ragen_agents.policies.base import Sampling
from ragen_agents.policies.language_model import LanguageModelPolicy, not_loaded

_LOG: Final = logging.getLogger("ragen.policies")


class TransformersPolicy(LanguageModelPolicy):
    """Batched generation from a local or hub model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
        sampling: How to decode.
        name: How tables call it; the folder's name by default.
        batch_size: Conversations generated together; halved where the memory is not enough for so many.
        device: "cpu", "cuda", or "auto" for the GPU if there is one.
        dtype: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU; on a CPU bfloat16 if the
            weights are saved in it and the processor has instructions for it, else float32.

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
        super().__init__(source, sampling, name, batch_size)
        transformers_logging.disable_progress_bar()
        avoid_cudnn_attention()
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            if dtype == "auto":
                dtype = _cpu_dtype(source) if device == "cpu" else "bfloat16"
            model: Any = AutoModelForCausalLM.from_pretrained(
                source, dtype=dtype, trust_remote_code=False
            )
            model.eval().to(device)
        except (OSError, ValueError, SafetensorError) as error:
            raise not_loaded(source, error) from error
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise not_loaded(source, error) from error
        self._context = int(getattr(model.config, "max_position_embeddings", 1 << 30))
        stops = stop_token_ids(model.generation_config, self._tokenizer)
        self._template = ChatTemplate(self._tokenizer, stops)
        pad = self._tokenizer.pad_token_id or 0
        self._decoder = Decoder(model, stops, pad, sampling.temperature, sampling.max_tokens)
        self._prefix_cache = PrefixCache()

    def _write(self, prompts: list[list[int]], seeds: list[int]) -> list[tuple[list[int], bool]]:
        written: list[tuple[list[int], bool]] = []
        while len(written) < len(prompts):
            part = slice(len(written), len(written) + self.batch_size)
            samples = self._sampled(prompts[part], seeds[part])
            if samples is None:
                self._take_fewer(len(prompts[part]) // 2)
            else:
                written += [(sample.ids, sample.finish == "stop") for sample in samples]
        return written

    def _sampled(self, prompts: list[list[int]], seeds: list[int]) -> list[Sample] | None:
        """Return a sample for each prompt, or None if the memory is not enough for several of them."""
        try:
            return self._prefix_cache.sample(self._decoder, prompts, seeds)
        except (RuntimeError, MemoryError) as error:
            if len(prompts) == 1 or not is_out_of_memory(error):
                raise
        return None

    def _take_fewer(self, count: int) -> None:
        """Generate fewer replies together from now on, after memory ran out."""
        self.batch_size = count
        self.release()
        torch.cuda.empty_cache()
        _LOG.warning(
            "out of memory; %s generates %d replies at a time from now on", self.name, count
        )

    def release(self) -> None:
        """Release the keys and values of the conversations."""
        self._prefix_cache.clear()


def _cpu_dtype(source: str | Path) -> str:
    """Return the type in which a model runs on this processor."""
    saved = AutoConfig.from_pretrained(source, trust_remote_code=False).dtype
    return "bfloat16" if saved == torch.bfloat16 and has_bfloat16() else "float32"
