"""The sizes of a model, from its config alone."""

import re
from dataclasses import dataclass
from typing import Any, Final

import torch
from huggingface_hub import try_to_load_from_cache
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config

from ragen_agents.engines.cpu.tree_pass import suits_trees
from ragen_agents.model_files.folders import check_configs, own_context
from ragen_agents.model_files.source import local_folder, model_source
from ragen_envs.errors import RagenError, first_line


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder with gated feed-forward layers, such as Llama, Mistral, Qwen2 and Qwen3."""

    parameters: int
    """Weights of the model; tied ones count once."""
    head_parameters: int
    """Parameters of the output head, 0 where it is the embedding."""
    linear_parameters: int
    """Parameters of the linear layers below the head, without biases."""
    adapter_width: int
    """Adapters of rank r on these layers have r times as many weights."""
    vocab_size: int
    layers: int
    hidden: int
    """Width of the states between layers."""
    query_width: int
    """Query heads times head size."""
    key_width: int
    """Key heads times head size."""
    intermediate: int
    """Width of the feed-forward layers."""
    norms: int
    """Norms of a layer over its whole width: 2, or 4 in Gemma."""
    head_norms: bool
    """Whether queries and keys are normed too, as in Qwen3."""
    context: int
    """Most tokens that the model reads."""
    reads_trees: bool
    """Whether the trainer passes tokens through it as a tree, where that is possible."""

    @property
    def tied(self) -> bool:
        """Whether the output head is the embedding."""
        return not self.head_parameters

    @property
    def trunk_parameters(self) -> int:
        """Weights below the output head, the embedding included."""
        return self.parameters - self.head_parameters


_QWEN: Final = {
    "0.5B": (896, 4864, 24, 14, 2), "1.5B": (1536, 8960, 28, 12, 2), "3B": (2048, 11008, 36, 16, 2),
    "7B": (3584, 18944, 28, 28, 4),
}  # fmt: skip
"""Hidden and intermediate width, layers, query heads and key heads of the paper's models, Qwen2.5."""


def _known_config(source: str) -> Any | None:
    """Return the config of one of the paper's models, which needs no hub, or None of others."""
    match = re.fullmatch(r"Qwen/Qwen2\.5-([\d.]+B)(-Instruct)?", source)
    if match is None or match[1] not in _QWEN:
        return None
    hidden, intermediate, layers, heads, keys = _QWEN[match[1]]
    return Qwen2Config(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=keys, max_position_embeddings=32_768,
        vocab_size=152_064 if match[1] == "7B" else 151_936, tie_word_embeddings=match[1] != "7B",
    )  # fmt: skip


def read_config(name: str, download: bool = False) -> Any:
    """Return the transformers config of a model; a folder needs no more than its config.json.

    The paper's models, Qwen2.5 of 0.5B to 7B, need nothing.

    Args:
        name: "starter", "smollm2" or another of `ragen models list`, a folder, a GGUF file, or "hf:NAME".
        download: Whether the config of a hub's model is downloaded if it is not here.
    """
    source = model_source(name)
    if (folder := local_folder(name)) is not None:
        check_configs(folder)
    try:
        return AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=not download)
    except Exception as error:  # whatever a stranger's file makes transformers raise
        known = _known_config(str(source)) if name.startswith("hf:") else None
        if known is not None:
            return known
        if name.startswith("hf:") and not download and not _is_cached(source):
            raise RagenError(
                f"model is '{name}', whose config.json is not on this machine; download it with 'hf download "
                f"{source} config.json', or put it into a folder and set model=FOLDER"
            ) from error
        raise RagenError(f"model is '{name}', which could not be loaded: {first_line(error)}") from error


def _is_cached(source: str) -> bool:
    return isinstance(try_to_load_from_cache(source, "config.json"), str)


class UnknownShapeError(RagenError):
    """The memory that a model needs is not known."""


def shape_of(config: Any) -> ModelShape:
    """Return the sizes of the model that a transformers config describes.

    An `UnknownShapeError` says that it is no decoder of attention and gated feed-forward layers.
    """
    text = config.get_text_config()
    try:
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config)
        heads = int(text.num_attention_heads)
        size = int(getattr(text, "head_dim", None) or text.hidden_size // heads)
        keys = int(getattr(text, "num_key_value_heads", None) or heads)
        intermediate = int(text.intermediate_size)
    except (AttributeError, TypeError, ValueError) as error:  # some have a list of widths
        raise _unknown(config) from error
    except Exception as error:  # whatever a stranger's config makes transformers raise
        raise RagenError(
            f"the model of type {config.model_type} could not be made: {first_line(error)}"
        ) from error
    head = model.get_output_embeddings()
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not head]
    hidden, layers = int(text.hidden_size), int(text.num_hidden_layers)
    outputs = heads * size + 2 * keys * size + 2 * hidden + 2 * intermediate
    if sum(m.out_features for m in linear) != layers * outputs:
        raise _unknown(config)
    norms = [tuple(p.shape) for n, p in model.named_parameters() if "norm" in n and p.dim() == 1]
    tied = head.weight is model.get_input_embeddings().weight
    return ModelShape(
        parameters=sum(p.numel() for p in model.parameters()),
        head_parameters=0 if tied else sum(p.numel() for p in head.parameters()),
        linear_parameters=sum(m.weight.numel() for m in linear),
        adapter_width=sum(m.in_features + m.out_features for m in linear),
        vocab_size=int(text.vocab_size),
        layers=layers,
        hidden=hidden,
        query_width=heads * size,
        key_width=keys * size,
        intermediate=intermediate,
        norms=(norms.count((hidden,)) - 1) // layers,  # one follows the last layer
        head_norms=any("q_norm" in n for n, _ in model.named_parameters()),
        context=own_context(text),
        reads_trees=suits_trees(text),
    )


def _unknown(config: Any) -> UnknownShapeError:
    return UnknownShapeError(
        f"the memory of a model of type {config.model_type} cannot be planned: it is no decoder of attention "
        "and gated feed-forward layers"
    )
