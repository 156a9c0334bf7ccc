"""Trajectories as tensors, and how they are cut into mini-batches and micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ragen_agents.rollout.trajectory import CONTEXT, Trajectory


@dataclass(frozen=True)
class TrainBatch:
    """Trajectories that are learned from: B of them, T columns.

    First prompts end at the same column, so padding is on both sides.
    """

    trajectories: list[Trajectory]
    ids: Tensor
    """(B, T) int64."""
    attention_mask: Tensor
    """(B, T) bool: False for padding."""
    start: int
    """Column at which the first prompts end."""
    turn_ids: Tensor
    """(B, T) int64, -1 for context and padding."""
    rollout_logprobs: Tensor
    """(B, T) float: the engine's log-probabilities when it sampled the tokens, in nats."""
    groups: Tensor
    """(B,) int64."""

    @property
    def mask(self) -> Tensor:
        """(B, T) bool, action tokens."""
        return self.turn_ids != CONTEXT

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Tokens of the first prompt of each, and tokens after it."""
        before = self.attention_mask[:, : self.start].sum(1).tolist()
        after = self.attention_mask[:, self.start :].sum(1).tolist()
        return list(zip(before, after, strict=True))

    @classmethod
    def of(cls, trajectories: list[Trajectory], pad: int) -> "TrainBatch":
        """Make a batch."""
        prompts = [t.turn_ids.index(0) if 0 in t.turn_ids else len(t.ids) for t in trajectories]
        start = max(prompts)

        def aligned(rows: list[list[Any]], value: float, dtype: torch.dtype) -> Tensor:
            shifted = [start - prompt for prompt in prompts]
            longest = max(shift + len(row) for shift, row in zip(shifted, rows, strict=True))
            whole = torch.full((len(rows), longest), value, dtype=dtype)
            for line, shift, row in zip(whole, shifted, rows, strict=True):
                line[shift : shift + len(row)] = torch.tensor(row, dtype=dtype)
            return whole

        return cls(
            trajectories=trajectories,
            ids=aligned([t.ids for t in trajectories], pad, torch.int64),
            attention_mask=aligned([[True] * len(t.ids) for t in trajectories], False, torch.bool),
            start=start,
            turn_ids=aligned([t.turn_ids for t in trajectories], CONTEXT, torch.int64),
            rollout_logprobs=aligned([t.logprobs for t in trajectories], 0.0, torch.float32),
            groups=torch.tensor([t.group for t in trajectories]),
        )

    def columns(self, rows: Sequence[int]) -> slice:
        """Return the columns that some trajectories fill."""
        filled = torch.nonzero(self.attention_mask[list(rows)].any(0))[:, 0]
        return slice(int(filled[0]), int(filled[-1]) + 1)


def mini_batches(count: int, steps: int, epochs: int, seed: int) -> list[list[int]]:
    """Return which trajectories each optimizer step learns from.

    Each epoch is a fresh permutation cut into ``steps`` parts whose sizes differ by one at most.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(epochs):
        order = rng.permutation(count)
        parts += [p.tolist() for p in np.array_split(order, min(steps, count)) if len(p)]
    return parts


def micro_batches(
    sizes: Sequence[tuple[int, int]], rows: Sequence[int], budget: int
) -> list[list[int]]:
    """Cut trajectories into parts of similar lengths whose padded size is at most ``budget`` tokens.

    A trajectory longer than the budget is a part of its own. The longest come first, so that memory
    runs out at once or never.

    Args:
        sizes: Tokens of each trajectory's first prompt and after it; both are padded to the part's longest.
        rows: The trajectories to cut.
        budget: Tokens.
    """
    parts: list[list[int]] = []
    before = after = 0
    for row in sorted(rows, key=lambda row: (-sum(sizes[row]), row)):
        before, after = max(before, sizes[row][0]), max(after, sizes[row][1])
        if not parts or (len(parts[-1]) + 1) * (before + after) > budget:
            parts.append([])
            before, after = sizes[row]
        parts[-1].append(row)
    return parts
