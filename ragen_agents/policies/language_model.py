"""What all language models that run here share as policies: prompts to tokens, tokens to replies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from ragen_agents.chat_template import ChatTemplate
from ragen_agents.policies.base import Reply, Request, Sampling
from ragen_envs.game.errors import RagenError, first_line

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin")


class LanguageModelPolicy(ABC):
    """A causal language model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
        sampling: How to decode.
        name: How tables call it; the folder's name by default.
        batch_size: Conversations generated together.

    Raises:
        RagenError: The folder holds no weights, or the model has no chat template.
    """

    _template: ChatTemplate  # made by each kind of model, which knows what ends its turns

    def __init__(
        self, source: str | Path, sampling: Sampling, name: str | None, batch_size: int
    ) -> None:
        _check_folder(Path(source))
        self.name = name or Path(source).name
        self.batch_size = batch_size
        self.sampling = sampling
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise not_loaded(source, error) from error
        if self._tokenizer.chat_template is None:
            raise RagenError(f"model '{source}' has no chat template; save one with its tokenizer")
        self._context = 1 << 30

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate the replies of at most ``batch_size`` requests together."""
        prompts = [self._template.prompt(request.messages, request.prefix) for request in requests]
        room = self._context - self.sampling.max_tokens
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) <= room]
        replies = [Reply("", len(prompt), 0, overflow=True) for prompt in prompts]
        if fits:
            written = self._write([prompts[i] for i in fits], [requests[i].seed for i in fits])
            for i, (ids, stopped) in zip(fits, written, strict=True):
                replies[i] = self._reply(prompts[i], ids, stopped)
        return replies

    @abstractmethod
    def _write(self, prompts: list[list[int]], seeds: list[int]) -> list[tuple[list[int], bool]]:
        """Return the sampled ids of each prompt, and whether the model ended its turn."""

    def _reply(self, prompt: list[int], ids: list[int], stopped: bool) -> Reply:
        tokens = ids[:-1] if stopped else ids
        return Reply(self._template.read(tokens), len(prompt), len(ids), cut_off=not stopped)


def not_loaded(source: str | Path, error: Exception) -> RagenError:
    """Return the error of a model that could not be loaded."""
    return RagenError(f"model '{source}' could not be loaded: {first_line(error)}")


def _check_folder(folder: Path) -> None:
    if folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise RagenError(f"model folder '{folder}' holds no weights (model.safetensors)")
