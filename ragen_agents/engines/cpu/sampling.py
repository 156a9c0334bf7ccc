"""Draw tokens from logits and collect them, on their device and without waiting for it."""

from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

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


class Sample(NamedTuple):
    """The reply of one row, with each token's log-probability and entropy as in `Drawn`."""

    ids: list[int]
    logprobs: list[float]
    """Log-probability of each token, in nats, under the tempered distribution; untempered if greedy."""
    entropies: list[float]
    """Entropy of the distribution of each token, in nats."""
    finish: Literal["stop", "length"]


class Replies:
    """The tokens of rows as they are drawn. Nothing here waits for the device until ``samples``.

    ``ends_with_stop`` returns which rows of tokens, (n, steps) int64, end with a stop text.
    """

    def __init__(
        self, rows: int, max_tokens: int, stop_token_ids: Collection[int], device: torch.device,
        ends_with_stop: Callable[[Tensor], Tensor] | None = None,
    ) -> None:  # fmt: skip
        self._ends_with_stop = ends_with_stop
        self._stops = torch.tensor(sorted(stop_token_ids), dtype=torch.int64, device=device)
        self._tokens = torch.zeros(max_tokens, rows, dtype=torch.int64, device=device)
        self._logprobs = torch.zeros(max_tokens, rows, device=device)
        self._entropies = torch.zeros(max_tokens, rows, device=device)
        self._open = torch.ones(rows, dtype=torch.bool, device=device)
        self.counts = torch.zeros(rows, dtype=torch.int64, device=device)
        """(rows,): the number of tokens of each row."""
        self._steps = 0

    def write(self, rows: Tensor, drawn: Drawn) -> None:
        """Write a token on each of some rows, (n,) int64; those that have ended ignore it."""
        self._tokens[self._steps].index_copy_(0, rows, drawn.tokens)
        self._logprobs[self._steps].index_copy_(0, rows, drawn.logprobs)
        self._entropies[self._steps].index_copy_(0, rows, drawn.entropies)
        self._steps += 1
        is_open = self.are_open(rows)
        stopped = (drawn.tokens[:, None] == self._stops).any(dim=-1)
        if self._ends_with_stop is not None:
            stopped |= self._ends_with_stop(self._tokens[: self._steps].index_select(1, rows).t())
        self.counts.index_add_(0, rows, is_open.long())
        self._open.index_copy_(0, rows, is_open & ~stopped)

    def last(self, rows: Tensor) -> Tensor:
        """Return the tokens of some rows in the last step."""
        return self._tokens[self._steps - 1].index_select(0, rows)

    def are_open(self, rows: Tensor) -> Tensor:
        """Return a bool for each of some rows, True until it has ended."""
        return self._open.index_select(0, rows)

    def samples(self) -> list[Sample]:
        """Return the sample of each row."""
        written = (self._tokens, self._logprobs, self._entropies)
        tokens, logprobs, entropies = (each.t().tolist() for each in written)
        ends = zip(self.counts.tolist(), self._open.tolist(), strict=True)
        return [
            Sample(ids[:n], logs[:n], spread[:n], "length" if unended else "stop")
            for ids, logs, spread, (n, unended) in zip(tokens, logprobs, entropies, ends, strict=True)
        ]
