"""What rows write, kept on the device of the model until all have ended."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ragen_agents.engines.cpu.sampling import Drawn


@dataclass
class Sample:
    """What one row has written."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each token, in nats, under the tempered distribution; untempered if greedy."""
    entropies: list[float] = field(default_factory=list)
    """Entropy of the distribution of each token, in nats."""
    finish: Literal["stop", "length"] = "length"


class Replies:
    """The tokens of rows as they are drawn. Nothing here waits for the device until ``samples``.

    Args:
        rows: Number of rows.
        max_tokens: Most tokens of a row.
        stop_token_ids: Tokens that end a row.
        device: Of the model.
    """

    def __init__(
        self, rows: int, max_tokens: int, stop_token_ids: Collection[int], device: torch.device
    ) -> None:
        self._stops = torch.tensor(sorted(stop_token_ids), dtype=torch.int64, device=device)
        self._tokens = torch.zeros(max_tokens, rows, dtype=torch.int64, device=device)
        self._logprobs = torch.zeros(max_tokens, rows, device=device)
        self._entropies = torch.zeros(max_tokens, rows, device=device)
        self._open = torch.ones(rows, dtype=torch.bool, device=device)
        self._steps = 0

    def write(self, rows: Tensor, drawn: Drawn) -> None:
        """Write a token on each of some rows, (n,) int64; those that have ended ignore it."""
        self._tokens[self._steps].index_copy_(0, rows, drawn.tokens)
        self._logprobs[self._steps].index_copy_(0, rows, drawn.logprobs)
        self._entropies[self._steps].index_copy_(0, rows, drawn.entropies)
        self._open.index_copy_(0, rows, self.are_open(rows) & ~self._stopped(drawn.tokens))
        self._steps += 1

    def last(self, rows: Tensor) -> Tensor:
        """Return the tokens of some rows in the last step."""
        return self._tokens[self._steps - 1].index_select(0, rows)

    def are_open(self, rows: Tensor) -> Tensor:
        """Return which of some rows have not ended, bool."""
        return self._open.index_select(0, rows)

    def counts(self) -> Tensor:
        """Return the number of tokens of each row, (rows,)."""
        stopped = self._stopped(self._tokens[: self._steps])
        first = stopped.to(torch.uint8).argmax(dim=0) + 1
        return torch.where(self._open, self._steps, first)

    def samples(self) -> list[Sample]:
        """Return what the rows have written."""
        written = (self._tokens, self._logprobs, self._entropies)
        tokens, logprobs, entropies = (each.t().tolist() for each in written)
        ends = zip(self.counts().tolist(), self._open.tolist(), strict=True)
        return [
            Sample(ids[:n], logs[:n], spread[:n], "length" if unended else "stop")
            for ids, logs, spread, (n, unended) in zip(
                tokens, logprobs, entropies, ends, strict=True
            )
        ]

    def _stopped(self, tokens: Tensor) -> Tensor:
        return (tokens[..., None] == self._stops).any(dim=-1)
