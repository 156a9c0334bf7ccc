"""What an engine is sent of a model, and how it is checked that it arrived."""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ragen_agents.engines.base import EngineError

PROBE_LENGTH: Final = 64
"""Tokens of the prompt whose log-probabilities are compared."""
TOLERANCE: Final = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest mean difference of log-probabilities, in nats, by the engine's arithmetic. Rounding makes about
1e-6 in float32, and 0.03 in bfloat16 (ServiceNow/Fast-LLM#525)."""


def without_adapters(model: Any) -> Any:
    """Return a model, or where it has low-rank adapters a copy with these merged into its weights."""
    if not hasattr(model, "merge_and_unload"):
        return model
    return copy.deepcopy(model).merge_and_unload()


def named_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights under the names of a saved folder, adapters merged.

    The output head is always among them. Where it is tied to the embedding, models do not list it, and
    an engine that keeps a packed copy of the head would silently keep using the old one.
    """
    plain = without_adapters(model)
    names = set()
    for name, parameter in plain.named_parameters():
        names.add(name)
        yield name, parameter.detach()
    head = plain.get_output_embeddings()
    name = next(n for n, module in plain.named_modules() if module is head) + ".weight"
    if name not in names:
        yield name, head.weight.detach()


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


def check_arrival(
    expected: Sequence[float], scored: Sequence[float], precision: str, version: int
) -> float:
    """Compare an engine's log-probabilities of the probe with those of the model that was sent.

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
