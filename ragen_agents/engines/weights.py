"""What an engine is sent of a model, and how it is checked that it arrived."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ragen_agents.engines.base import EngineError
from ragen_envs.game.errors import RagenError

PROBE_LENGTH: Final = 64
"""Tokens of the prompt whose log-probabilities are compared."""
TOLERANCE: Final = {"float32": 1e-3, "bfloat16": 0.5}
"""Largest mean difference of log-probabilities, in nats, by the engine's arithmetic. Rounding makes about
1e-6 in float32, and up to 0.14 in bfloat16; weights under wrong names make several nats."""
_REFUSED: Final = "which cannot be merged for an engine; use plain LoRA on linear layers"


@torch.no_grad()
def named_weights(model: Any, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights under the names of a saved folder, adapters merged, one tensor at a time.

    The output head is always among them. Where it is tied to the embedding, models do not list it, and
    an engine that keeps a packed copy of the head would silently keep using the old one.

    Args:
        model: A causal language model, perhaps with low-rank adapters of peft.
        dtype: What floating-point weights are cast to; their own by default.

    Raises:
        RagenError: Its adapters are of a kind that cannot be merged here.
    """
    adapted = hasattr(model, "merge_and_unload")
    plain = model.get_base_model() if adapted else model
    if adapted:
        _check_adapters(model, plain)
    names = set()
    for name, parameter in plain.named_parameters():
        if ".lora_" in name:
            continue
        saved = name.replace(".base_layer.", ".")
        names.add(saved)
        owner = plain.get_submodule(name.rpartition(".")[0].removesuffix(".base_layer"))
        if name.endswith(".base_layer.weight"):
            yield saved, _merged(owner, parameter, dtype)
        else:
            yield saved, _cast(parameter, dtype)
    head = plain.get_output_embeddings()
    name = next(n for n, module in plain.named_modules() if module is head) + ".weight"
    if name not in names:
        yield name, _cast(head.weight, dtype)


def _cast(weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    own = weight.detach()
    return own.to(dtype) if dtype is not None and own.is_floating_point() else own


def _merged(layer: Any, weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return the weight of a layer with what its active adapters add to it, rounded once.

    The sum is computed in float32: a base in bfloat16 would swallow small updates.
    """
    if layer.merged:
        return _cast(weight, dtype)
    total = weight.detach().float()
    for adapter in layer.active_adapters:
        if adapter in layer.lora_A:
            total = total + layer.get_delta_weight(adapter).float()
    return total.to(dtype or weight.dtype)


def _check_adapters(model: Any, plain: Any) -> None:
    """Refuse all adapters but plain low-rank ones on linear layers."""
    from peft import PeftType
    from peft.tuners.lora import Linear
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    for name, settings in model.peft_config.items():
        if settings.peft_type != PeftType.LORA:
            raise RagenError(
                f"adapter '{name}' is of kind {settings.peft_type.value}, but only LORA can be merged for an "
                "engine; train with it, or merge it into the model first"
            )
    tied = bool(getattr(plain.config.get_text_config(), "tie_word_embeddings", False))
    for name, module in plain.named_modules():
        if isinstance(module, AuxiliaryTrainingWrapper):
            raise RagenError(
                f"'{name}' is trained whole beside adapters (modules_to_save), {_REFUSED}"
            )
        if not isinstance(module, BaseTunerLayer):
            continue
        if not isinstance(module, Linear):
            raise RagenError(
                f"'{name}' has an adapter on a {type(module).__name__} layer, {_REFUSED}"
            )
        if module.lora_variant or any(module.lora_bias.values()):
            raise RagenError(
                f"'{name}' has an adapter with a bias, DoRA or another variant, {_REFUSED}"
            )
        if tied and module is plain.get_output_embeddings():
            raise RagenError(f"'{name}' has an adapter but is tied to the embedding, {_REFUSED}")


def probe(model: Any) -> list[int]:
    """Return the fixed prompt of the comparison: tokens of the whole vocabulary."""
    drawn = np.random.default_rng(0).integers(
        model.config.get_text_config().vocab_size, size=PROBE_LENGTH
    )
    ids: list[int] = drawn.tolist()
    return ids


def logprobs_of(model: Any, ids: Tensor) -> Tensor:
    """Return a model's log-probabilities of all tokens of (1, T) ids but the first: (T - 1,), in nats."""
    logs = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1)
    return logs.gather(1, ids[0, 1:, None])[:, 0]


@torch.no_grad()
def probed(model: Any) -> list[float]:
    """Return a model's own log-probabilities of all tokens of `probe` but the first, in nats."""
    found: list[float] = logprobs_of(
        model, torch.tensor([probe(model)], device=model.device)
    ).tolist()
    return found


def check_scores(
    expected: Sequence[float], scored: Sequence[float], precision: str, version: int
) -> float:
    """Compare an engine's log-probabilities of the probe with those of the model that was sent.

    This sees weights under wrong names and a model that computes something else. One small update is lost in
    rounding; sums and hashes of the weights see that.

    Args:
        expected: What `probed` returns of the model.
        scored: The engine's for the same tokens, in nats.
        precision: Key of ``TOLERANCE``.
        version: Of the weights.

    Returns:
        The mean absolute difference, in nats.

    Raises:
        EngineError: It is too large, so the engine does not have these weights.
    """
    gap = float((torch.tensor(expected) - torch.tensor(scored)).abs().mean())
    if not gap <= TOLERANCE[precision]:
        raise EngineError(
            f"after version {version} of the weights was sent, the engine's log-probabilities of a fixed "
            f"prompt differ from the trainer's by {gap:.3g} nats a token, where {precision} allows "
            f"{TOLERANCE[precision]:g}: the engine does not have these weights"
        )
    return gap
