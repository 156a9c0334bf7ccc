"""Drawing tokens from logits, on their device and without waiting for it."""

from typing import NamedTuple

import torch
from torch import Tensor

_BLOCK = 256
"""Most tokens whose chances are added up one by one."""


class Drawn(NamedTuple):
    """One token of each row."""

    tokens: Tensor
    """(rows,) int64."""
    logprobs: Tensor
    """(rows,) float32: of the tokens under the tempered distribution, in nats; untempered if greedy."""
    entropies: Tensor
    """(rows,) float32: of that distribution, in nats."""


def draw(logits: Tensor, draws: Tensor, temperature: float) -> Drawn:
    """Draw a token from each row of logits.

    Args:
        logits: (rows, vocabulary).
        draws: (rows,) float64 in [0, 1): each picks a token by the inverse of the cumulative distribution.
        temperature: 0 takes the likeliest token.
    """
    tempered = logits.float() if temperature in (0, 1) else logits.float() / temperature
    chances = tempered.softmax(dim=-1)
    tokens = tempered.argmax(dim=-1) if temperature == 0 else _found(chances, draws)
    logprobs = chances.gather(1, tokens[:, None])[:, 0].log()
    # A log-probability is a logit less the normaliser; adding up x log x would take several times as long.
    normaliser = tempered.gather(1, tokens[:, None])[:, 0] - logprobs
    with torch.autocast(logits.device.type, enabled=False):  # else the product is in bfloat16
        mean = torch.linalg.vecdot(chances, tempered)
    return Drawn(tokens, logprobs, normaliser - mean)


def _found(chances: Tensor, draws: Tensor) -> Tensor:
    """Return the token whose part of the cumulative distribution holds the draw, (rows,).

    The block of the vocabulary is found first, then the token in it: adding up a whole row one by one takes
    longer than all else here.
    """
    width = _width(chances.shape[1])
    blocks = chances.view(len(chances), -1, width)
    ends = blocks.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    bar = draws[:, None] * ends[:, -1:]
    block = _first_above(ends, bar)
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, width))[:, 0]
    before = torch.nn.functional.pad(ends, (1, 0)).gather(1, block)
    return (block * width + _first_above(inside.double().cumsum(-1), bar - before))[:, 0]


def _first_above(ends: Tensor, bar: Tensor) -> Tensor:
    # Sums in another order may round to just below the bar, so the last place ends the search.
    return torch.searchsorted(ends, bar, right=True).clamp(max=ends.shape[1] - 1)


def _width(vocabulary: int) -> int:
    """Return the largest divisor of the size of a vocabulary that is a block's size at most."""
    return next(n for n in range(min(_BLOCK, vocabulary), 0, -1) if vocabulary % n == 0)
