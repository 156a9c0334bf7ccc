"""A causal language model in vLLM as a policy."""

from pathlib import Path

from transformers import AutoConfig, GenerationConfig

from ragen_agents.chat_template import ChatTemplate
from ragen_agents.engines import Completion, TokenRequest
from ragen_agents.engines.cpu.decoding import stop_token_ids
from ragen_agents.engines.vllm.api import check_version
from ragen_agents.engines.vllm.engine import VllmEngine
from ragen_agents.engines.vllm.local import LocalSettings, load_local
from ragen_agents.policies.base import Sampling
from ragen_agents.policies.language_model import LanguageModelPolicy, not_loaded


class VllmPolicy(LanguageModelPolicy):
    """Generation by vLLM, in this process, from a local or hub model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
        sampling: How to decode.
        name: How tables call it; the folder's name by default.
        batch_size: Conversations generated together.
        precision: "float32", "bfloat16", or "auto": float32 on the CPU, else bfloat16.
        cache_gib: Memory for keys and values, in GiB; None for as much as the conversations need and is free.

    Raises:
        RagenError: vLLM is missing, of an unknown version, or cannot load the model; the folder holds no
            weights; the model has no chat template.
    """

    def __init__(
        self,
        source: str | Path,
        sampling: Sampling,
        name: str | None = None,
        batch_size: int = 256,
        precision: str = "auto",
        cache_gib: float | None = None,
    ) -> None:
        check_version()
        super().__init__(source, sampling, name, batch_size)
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise not_loaded(source, error) from error
        try:
            generation = GenerationConfig.from_pretrained(source)
        except OSError:  # a model may be saved without one
            generation = GenerationConfig.from_model_config(config)
        stops = stop_token_ids(generation, self._tokenizer)
        self._template = ChatTemplate(self._tokenizer, stops)
        settings = LocalSettings(None, batch_size, precision, cache_gib, sleeps=False)
        model = load_local(source, settings)
        own = int(getattr(config, "max_position_embeddings", 1 << 30))
        self._context = min(own, model.context)
        self._engine = VllmEngine(model, stops, sampling.max_tokens)

    def _write(self, prompts: list[list[int]], seeds: list[int]) -> list[tuple[list[int], bool]]:
        pairs = enumerate(zip(prompts, seeds, strict=True))
        self._engine.submit(
            [
                TokenRequest(i, prompt, seed, self.sampling.temperature)
                for i, (prompt, seed) in pairs
            ]
        )
        found: dict[int, Completion] = {}
        while done := self._engine.poll():
            found |= {completion.key: completion for completion in done}
        return [(found[i].ids, found[i].finish == "stop") for i in range(len(prompts))]
