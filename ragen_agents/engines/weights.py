"""The weights that an engine is sent, and the checks that they arrived.

`named_weights` yields the trainer's weights. An engine in this process is checked by sums over the bits
of each layer (`check_sums`), a server by the hashes that it reports (`ArrivalCheck`), and both by the
log-probabilities of a fixed prompt (`check_scores`).
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ragen_agents.engines.base import EngineError

PROBE_LENGTH: Final = 64
"""Tokens of the prompt whose log-probabilities are compared."""
TOLERANCE: Final = {"float32": 1e-3, "bfloat16": 0.5}
"""Largest mean difference of log-probabilities, in nats, by the engine's arithmetic. Rounding makes about
1e-6 in float32, and up to 0.14 in bfloat16; weights under wrong names make several nats."""
_CHUNK: Final = 1 << 22
"""Elements hashed at the same time."""
_FIRST: Final = -0x61C8864680B583EB
_SECOND: Final = -0x40A7B892E31B1A47
"""Odd multipliers of a mixer of 64 bits, as signed numbers (SplitMix64, doi:10.1145/2660193.2660195)."""
_BITS: Final = {2: torch.int16, 4: torch.int32}
_SHOWN: Final = 3
Sums = dict[str, int]
"""A number of 64 bits for each place: a layer, or a weight outside of all layers."""
_EMPTY: Final = hashlib.sha256().hexdigest()
"""Hash of a weight that a server on a CPU keeps in a packed copy only."""
_VOCABULARY_BLOCK: Final = 64
"""Rows to a multiple of which vLLM pads embeddings."""
Digests = dict[str, str]


@torch.no_grad()
def named_weights(model: Any, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights under the names of a saved folder, adapters merged, one tensor at a time.

    The output head is always among them. Where it is tied to the embedding, models do not list it, and
    an engine that keeps a packed copy of the head would silently keep using the old one.

    Args:
        model: A causal language model, perhaps with plain low-rank adapters of peft.
        dtype: What floating-point weights are cast to; their own by default.
    """
    plain = model.get_base_model() if hasattr(model, "merge_and_unload") else model
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


def probe(model: Any) -> list[int]:
    """Return the fixed prompt of the comparison: tokens of the whole vocabulary."""
    drawn = np.random.default_rng(0).integers(model.config.get_text_config().vocab_size, size=PROBE_LENGTH)
    ids: list[int] = drawn.tolist()
    return ids


def logprobs_of(model: Any, ids: Tensor) -> Tensor:
    """Return a model's log-probabilities of all tokens of (1, T) ids but the first: (T - 1,), in nats."""
    logs = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1)
    return logs.gather(1, ids[0, 1:, None])[:, 0]


@torch.no_grad()
def probed(model: Any) -> list[float]:
    """Return a model's own log-probabilities of all tokens of `probe` but the first, in nats."""
    logprobs: list[float] = logprobs_of(model, torch.tensor([probe(model)], device=model.device)).tolist()
    return logprobs


def check_scores(expected: Sequence[float], scored: Sequence[float], precision: str, version: int) -> float:
    """Compare an engine's log-probabilities of the probe with those of the model that was sent.

    This sees weights under wrong names and a model that computes something else. One small update is lost in
    rounding; sums and hashes of the weights see that.

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


def sum_of(weight: Tensor) -> int:
    """Return the sum of the hashed elements of a weight of 16 or 32 bits; zeros count nothing."""
    bits = weight.detach().reshape(-1).view(_BITS[weight.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=weight.device)
    for chunk in bits.split(_CHUNK):
        mixed = chunk.long() * _FIRST
        mixed ^= mixed >> 32
        mixed *= _SECOND
        mixed ^= mixed >> 29
        total += mixed.sum()
    return int(total)


def place_of(name: str) -> str:
    """Return the place that a weight of some name belongs to, in the trainer and in an engine."""
    layer = re.search(r"\.(\d+)\.", name)
    return f"layer {layer.group(1)}" if layer else ".".join(name.split(".")[-2:])


def add_to(sums: Sums, name: str, weight: Tensor) -> None:
    """Add a weight to the sum of its place."""
    place = place_of(name)
    sums[place] = (sums.get(place, 0) + sum_of(weight)) % 2**64


def noted(weights: Iterable[tuple[str, Tensor]], sums: Sums) -> Iterator[tuple[str, Tensor]]:
    """Pass weights on, and add each to the sums."""
    for name, weight in weights:
        add_to(sums, name, weight)
        yield name, weight


def check_sums(sent: Mapping[str, int], held: Mapping[str, int], label: str) -> None:
    """Check that an engine holds the weights that were sent.

    A place that only one side has must equal one of the other's: a head tied to the embedding, which one of
    them stores twice.

    Raises:
        EngineError: It holds others.
    """
    wrong = [place for place in sent.keys() & held.keys() if sent[place] != held[place]]
    for ours, theirs in ((sent, held), (held, sent)):
        wrong += [p for p in ours.keys() - theirs.keys() if ours[p] not in theirs.values()]
    if wrong or not sent:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        where = ", ".join(sorted(wrong)[:_SHOWN]) + more if wrong else "all layers"
        raise EngineError(
            f"after version '{label}' of the weights was sent, vLLM holds others in {where}: the engine does "
            "not have these weights"
        )


def digest_of(weight: Tensor) -> str:
    """Return the SHA-256 of a weight's bytes."""
    flat = weight.detach().cpu().flatten()
    return hashlib.sha256(flat.view(torch.uint8).numpy().data).hexdigest()


def digests_of(weights: Mapping[str, Tensor], vocabulary: int) -> Digests:
    """Return the hashes of a model's weights; "" where vLLM pads a weight with rows of zeros."""
    pads = vocabulary % _VOCABULARY_BLOCK != 0
    return {
        name: "" if pads and weight.shape[:1] == (vocabulary,) else digest_of(weight)
        for name, weight in weights.items()
    }


class ArrivalCheck:
    """Compares the hashes of a server's weights with those that were sent, from one version to the next."""

    def __init__(self) -> None:
        self._before: tuple[Digests, Digests] | None = None

    def check(self, sent: Digests, reported: Mapping[str, str], label: str) -> None:
        """Check every replica of a server.

        Raises:
            EngineError: A replica holds other weights.
        """
        if any(":tp0:" not in key for key in reported):  # sharded
            wrong = self._unchanged(sent, reported)
        else:
            owned = ((key, digest, sent.get(key.rpartition(":")[2])) for key, digest in reported.items())
            wrong = [key for key, digest, own in owned if own and digest not in (own, _EMPTY)]
        if wrong:
            raise EngineError(
                f"after version '{label}' of the weights was sent, the server holds others in {wrong[0]} and "
                f"{len(wrong) - 1} more: the engine does not have these weights"
            )
        self._before = sent, dict(reported)

    def _unchanged(self, sent: Digests, reported: Mapping[str, str]) -> list[str]:
        """Return the places that were sent anew and are as before on a worker."""
        if self._before is None:
            return []
        sent_before, reported_before = self._before
        renewed = {place_of(name) for name in sent if sent[name] != sent_before.get(name)}
        stale: dict[str, bool] = defaultdict(lambda: True)
        for key, digest in reported.items():
            worker, _, name = key.rpartition(":")
            place = f"{worker}:{place_of(name)}"
            stale[place] &= digest == reported_before.get(key) and digest != _EMPTY
        return [place for place, same in stale.items() if same and place.rpartition(":")[2] in renewed]
