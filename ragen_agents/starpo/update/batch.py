"""Trajectories as tensors, and how they are cut into mini-batches and micro-batches."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ragen_agents.rollout.trajectory import CONTEXT, Row, Trajectory


class Size(NamedTuple):
    """Size of the passes over a trajectory."""

    before: int
    """Tokens of the longest prompt of its rows."""
    after: int
    """Most tokens after the prompt of a row."""
    rows: int = 1

    @property
    def tokens(self) -> int:
        """Tokens of the rows, padding included."""
        return self.rows * (self.before + self.after)


@dataclass(frozen=True)
class TokenRows:
    """Input of the models: R rows, T columns. Prompts end at the same column: padding is on both sides."""

    ids: Tensor
    """(R, T) int64."""
    attention_mask: Tensor
    """(R, T) bool: False for padding."""
    mask: Tensor
    """(R, T) bool, action tokens."""
    start: int
    """Column at which the prompts end."""

    @classmethod
    def of(cls, rows: Sequence[Row], pad: int) -> "TokenRows":
        """Make the tensors of some rows."""
        prompts = [row.prompt for row in rows]
        written = [[turn != CONTEXT for turn in row.turn_ids] for row in rows]
        return cls(
            ids=_aligned([row.ids for row in rows], prompts, pad, torch.int64),
            attention_mask=_aligned([[True] * len(row.ids) for row in rows], prompts, False, torch.bool),
            mask=_aligned(written, prompts, False, torch.bool),
            start=max(prompts),
        )  # fmt: skip

    def part(self, rows: Sequence[int], device: torch.device) -> "TokenRows":
        """Return some rows and the columns that they fill, on a device."""
        chosen = list(rows)
        columns = _filled(self.attention_mask[chosen])
        ids, real, mask = (
            each[chosen, columns].to(device) for each in (self.ids, self.attention_mask, self.mask)
        )
        return TokenRows(ids, real, mask, self.start - columns.start)


@dataclass(frozen=True)
class TrainBatch:
    """A batch of B trajectories with T columns, which hold row after row.

    First prompts that were replied to end at the same column. Models process rows; everything else, from
    rewards to losses, is computed per trajectory, so that each counts once, however many rows it has.
    """

    trajectories: list[Trajectory]
    attention_mask: Tensor
    """(B, T) bool: False for padding."""
    turn_ids: Tensor
    """(B, T) int64, -1 for context and padding."""
    rollout_logprobs: Tensor
    """(B, T) float: the engine's log-probabilities when it sampled the tokens, in nats; nan where the engine
    gave none."""
    rollout_entropies: Tensor
    """(B, T) float: entropies of what they were sampled from, in nats; nan where the engine gave none."""
    groups: Tensor
    """(B,) int64."""
    rows: TokenRows
    """All rows, trajectory after trajectory."""
    sizes: list[Size]
    """Size of each trajectory."""

    @property
    def mask(self) -> Tensor:
        """(B, T) bool, action tokens."""
        return self.turn_ids != CONTEXT

    @classmethod
    def of(cls, trajectories: list[Trajectory], pad: int) -> "TrainBatch":
        """Make a batch."""
        learned = [_learned_rows(trajectory) for trajectory in trajectories]
        prompts = [rows[0].prompt for rows in learned]
        real = [[True] * len(t.ids) for t in trajectories]
        return cls(
            trajectories=trajectories,
            attention_mask=_aligned(real, prompts, False, torch.bool),
            turn_ids=_aligned([t.turn_ids for t in trajectories], prompts, CONTEXT, torch.int64),
            rollout_logprobs=_aligned([t.logprobs for t in trajectories], prompts, 0.0, torch.float32),
            rollout_entropies=_aligned([t.entropies for t in trajectories], prompts, 0.0, torch.float32),
            groups=torch.tensor([t.group for t in trajectories]),
            rows=TokenRows.of([row for rows in learned for row in rows], pad),
            sizes=[
                Size(max(r.prompt for r in rows), max(len(r.ids) - r.prompt for r in rows), len(rows))
                for rows in learned
            ],
        )  # fmt: skip

    def columns(self, trajectories: Sequence[int]) -> slice:
        """Return the columns that some trajectories fill."""
        return _filled(self.attention_mask[list(trajectories)])

    def passed(self, trajectories: Iterable[int], device: torch.device) -> TokenRows:
        """Return the rows of some trajectories, in their order, on a device."""
        firsts = np.cumsum([0, *(size.rows for size in self.sizes)]).tolist()
        return self.rows.part([r for t in trajectories for r in range(firsts[t], firsts[t + 1])], device)


def _learned_rows(trajectory: Trajectory) -> list[Row]:
    """Return the rows in which the model wrote something; the first one if it wrote nothing."""
    rows = trajectory.rows
    return [row for row in rows if row.prompt < len(row.ids)] or rows[:1]


def _aligned(
    lists: Sequence[Sequence[Any]], prompts: Sequence[int], value: float, dtype: torch.dtype
) -> Tensor:
    """Return lists of tokens side by side, shifted so that prompts end at the same column."""
    start = max(prompts)
    shifted = [start - prompt for prompt in prompts]
    longest = max(shift + len(each) for shift, each in zip(shifted, lists, strict=True))
    whole = torch.full((len(lists), longest), value, dtype=dtype)
    for line, shift, each in zip(whole, shifted, lists, strict=True):
        line[shift : shift + len(each)] = torch.tensor(each, dtype=dtype)
    return whole


def _filled(attention_mask: Tensor) -> slice:
    """Return the columns in which some row is no padding."""
    filled = torch.nonzero(attention_mask.any(0))[:, 0]
    return slice(int(filled[0]), int(filled[-1]) + 1)


def mini_batches(count: int, steps: int, epochs: int, seed: int) -> list[list[int]]:
    """Return the trajectories of each optimizer step.

    Each epoch is a fresh permutation cut into ``steps`` parts whose sizes differ by one at most.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(epochs):
        order = rng.permutation(count)
        parts += [p.tolist() for p in np.array_split(order, min(steps, count))]
    return parts


def micro_batches(sizes: Sequence[Size], chosen: Sequence[int], budget: int) -> list[list[int]]:
    """Cut chosen trajectories into parts of similar sizes whose padded rows have at most ``budget`` tokens.

    Prompts, and what follows them, are padded to the part's longest. A trajectory larger than the budget is a
    separate part, and the rows of a trajectory stay together. The largest parts come first, so that if memory
    runs out, it does so at once.
    """
    parts: list[list[int]] = []
    before = after = rows = 0
    for one in sorted(chosen, key=lambda one: (-sizes[one].tokens, one)):
        size = sizes[one]
        before, after, rows = max(before, size.before), max(after, size.after), rows + size.rows
        if not parts or rows * (before + after) > budget:
            parts.append([])
            before, after, rows = size
        parts[-1].append(one)
    return parts


def shared_micro_batches(
    sizes: Sequence[Size], chosen: Sequence[int], budget: int, processes: int
) -> list[list[int]]:
    """Cut trajectories as `micro_batches` does, but so that no process waits if that can be helped.

    They take as many rounds as parts of the whole budget would, with the smallest budget that allows it.
    """
    most = -(-len(micro_batches(sizes, chosen, budget)) // processes) * processes
    budgets = range(1, budget + 1)
    place = bisect_left(
        budgets, True, hi=budget - 1, key=lambda each: len(micro_batches(sizes, chosen, each)) <= most
    )
    return micro_batches(sizes, chosen, budgets[place])
