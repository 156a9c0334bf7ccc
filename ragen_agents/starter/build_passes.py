"""The finished passes of a build, from which an interrupted build resumes."""

import json
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from ragen_agents.model_files.tokenizer_files import save_tokenizer
from ragen_agents.run_files.atomic import new_folder
from ragen_agents.starter.recipe import Recipe

Weights = dict[str, torch.Tensor]
_RECIPE: Final = "recipe.json"
_WEIGHTS: Final = "model.safetensors"


class Passes:
    """Folders below one, each with the weights after a pass and the recipe up to it."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self._folder = folder
        self._recipe = recipe

    @property
    def done(self) -> int:
        """How many passes of this recipe are kept."""
        count = 0
        while count < len(self._recipe.stages) and self._is_kept(count + 1):
            count += 1
        return count

    def keep(self, count: int, weights: Weights, tokenizer: PreTrainedTokenizerFast) -> None:
        """Keep the weights after the first ``count`` passes."""
        with new_folder(self._path(count)) as folder:
            # Clones, because tied weights are one tensor, which the format refuses.
            save_file({name: weight.clone() for name, weight in weights.items()}, folder / _WEIGHTS)
            save_tokenizer(tokenizer, folder)
            (folder / _RECIPE).write_text(json.dumps(self._recipe.until(count)), encoding="utf-8")

    def weights(self, count: int) -> Weights:
        """Return the weights after the first ``count`` passes."""
        return load_file(self._path(count) / _WEIGHTS)

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the tokenizer, which the first pass has made."""
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(self._path(1))
        return tokenizer

    def _is_kept(self, count: int) -> bool:
        path = self._path(count) / _RECIPE
        given = json.loads(json.dumps(self._recipe.until(count)))
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")) == given

    def _path(self, count: int) -> Path:
        return self._folder / f"pass-{count:02}"
