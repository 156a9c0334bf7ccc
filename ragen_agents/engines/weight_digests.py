"""Hashes of a server's weights, by which it is seen whether they arrived.

A server tells the SHA-256 of each of its parameters. Those that it stores as they were sent are compared with
what was sent; of a server that shards them, only whether they changed.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from ragen_agents.engines.base import EngineError
from ragen_agents.engines.weight_sums import place_of

_EMPTY: Final = hashlib.sha256().hexdigest()
"""Hash of a weight that a server on a CPU keeps in a packed copy only."""
_VOCABULARY_BLOCK: Final = 64
"""Rows to a multiple of which vLLM pads embeddings."""

Digests = dict[str, str]


def digest_of(weight: Tensor) -> str:
    """Return the SHA-256 of a weight's bytes."""
    flat = weight.detach().cpu().contiguous().view(-1)
    return hashlib.sha256(flat.view(torch.uint8).numpy()).hexdigest()


def digests_of(weights: Mapping[str, Tensor], vocabulary: int) -> Digests:
    """Return the hashes of a model's weights; "" where vLLM pads a weight with rows of zeros.

    Args:
        weights: By the names of a saved folder.
        vocabulary: Rows of an embedding.
    """
    pads = vocabulary % _VOCABULARY_BLOCK != 0
    return {
        name: "" if pads and weight.shape[:1] == (vocabulary,) else digest_of(weight)
        for name, weight in weights.items()
    }


class ArrivalCheck:
    """Compares what a server tells of its weights with what was sent, from one hand-over to the next."""

    def __init__(self) -> None:
        self._before: tuple[Digests, Digests] | None = None

    def check(self, sent: Digests, found: Mapping[str, str], label: str) -> None:
        """Check every replica of a server.

        Args:
            sent: By the names of a saved folder.
            found: By those names after what vLLM names a worker by, such as ``dp0:pp0:pcp0:tp0:``.
            label: Of the version of the weights, for people.

        Raises:
            EngineError: A replica holds other weights.
        """
        sharded = any(":tp0:" not in key for key in found)
        wrong = self._unchanged(sent, found) if sharded else _different(sent, found)
        if wrong:
            raise EngineError(
                f"after version '{label}' of the weights was sent, the server holds others in {wrong[0]} and "
                f"{len(wrong) - 1} more: the engine does not have these weights"
            )
        self._before = sent, dict(found)

    def _unchanged(self, sent: Digests, found: Mapping[str, str]) -> list[str]:
        """Return the places that were sent anew and are as before on a worker."""
        if self._before is None:
            return []
        sent_before, found_before = self._before
        renewed = {place_of(name) for name in sent if sent[name] != sent_before.get(name)}
        stale: dict[str, bool] = defaultdict(lambda: True)
        for key, digest in found.items():
            worker, _, name = key.rpartition(":")
            place = f"{worker}:{place_of(name)}"
            stale[place] &= digest == found_before.get(key) and digest != _EMPTY
        return [
            place for place, same in stale.items() if same and place.rpartition(":")[2] in renewed
        ]


def _different(sent: Digests, found: Mapping[str, str]) -> list[str]:
    return [
        key
        for key, digest in found.items()
        if (own := sent.get(key.rpartition(":")[2])) and digest not in (own, _EMPTY)
    ]
