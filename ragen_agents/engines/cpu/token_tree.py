"""Rows of tokens as a tree, in which what several rows have in common is one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Tokens = NDArray[np.int64]

_SIMILAR: Final = 3 / 4
"""The shortest node of a level has at least this share of the longest one's tokens."""


class Parents(NamedTuple):
    """The nodes right above those of a level; all of them are of the same level."""

    level: int
    nodes: Tensor
    """(B,) int64."""


class Level(NamedTuple):
    """Nodes of similar lengths: B of them, side by side with padding on the right, L columns."""

    tokens: slice
    """Their slice of the tree, whose nodes follow one another without padding."""
    real: Tensor
    """(B, L) bool: False for padding."""
    slots: Tensor | None
    """(tokens,) int64: where they are in the flattened columns; None where there is no padding."""
    parents: Parents | None
    """None for the first nodes of rows."""

    def padded(self, states: Tensor) -> Tensor:
        """Return the nodes side by side, (B, heads, L, head size), of the tree's (N, heads, head size)."""
        own, shape = states[self.tokens], self.real.shape
        if self.slots is not None:
            wide = own.new_zeros(shape.numel(), *own.shape[1:])
            own = wide.index_copy_(0, self.slots, own)
        return own.view(*shape, *own.shape[1:]).transpose(1, 2)

    def unpadded(self, nodes: Tensor) -> Tensor:
        """Return the tokens one after another, (tokens, heads, head size)."""
        flat = nodes.transpose(1, 2).flatten(0, 1)
        return flat if self.slots is None else flat.index_select(0, self.slots)


@dataclass(frozen=True)
class TokenTree:
    """The different tokens of rows. Each sees those before it in its node, and in the nodes above."""

    ids: Tensor
    """(N,) int64: level after level."""
    positions: Tensor
    """(N,) int64, from 0 where rows begin."""
    levels: list[Level]
    """Parents come before their children."""
    places: Tensor
    """(R, T) int64: where the tokens of the rows are in the tree; 0 for padding."""

    def to(self, device: torch.device) -> "TokenTree":
        """Return the tree with its tokens on a device; the levels stay where they are."""
        ids, positions, places = (x.to(device) for x in (self.ids, self.positions, self.places))
        return replace(self, ids=ids, positions=positions, places=places)

    @classmethod
    def of(cls, ids: Tensor, real: Tensor, start: int) -> "TokenTree":
        """Find what rows have in common: what all begin with, whole prompts, and whole rows.

        Args:
            ids: (R, T) token ids, on a CPU.
            real: (R, T) bool, which are no padding; without gaps on any row.
            start: Column at which the prompts end.
        """
        mask = real.numpy()
        rows = [row[kept] for row, kept in zip(ids.numpy(), mask, strict=True)]
        ends = mask[:, :start].sum(1).tolist()
        prompts = [row[:end] for row, end in zip(rows, ends, strict=True)]
        shared = _shared_beginning(prompts)
        growing = _GrowingTree(len(rows))
        growing.add([prompt[:shared] for prompt in prompts])
        growing.add([prompt[shared:] for prompt in prompts])
        growing.add([row[end:] for row, end in zip(rows, ends, strict=True)])
        places = np.zeros(mask.shape, dtype=np.int64)
        places[mask] = np.concatenate([part for path in growing.paths for part in path])
        return cls(
            torch.from_numpy(np.concatenate(growing.ids)),
            torch.from_numpy(np.concatenate(growing.positions)),
            growing.levels,
            torch.from_numpy(places),
        )


class _Place(NamedTuple):
    """Place of a node."""

    level: int
    number: int


@dataclass
class _Node:
    """A node that is not in the tree yet."""

    above: _Place | None
    tokens: Tokens
    rows: list[int] = field(default_factory=list)
    """Numbers of the rows that go through it."""


class _GrowingTree:
    """A tree of which nodes are added to the ends of the rows."""

    def __init__(self, rows: int) -> None:
        self.ids: list[Tokens] = []
        self.positions: list[Tokens] = []
        self.levels: list[Level] = []
        self.paths: list[list[Tokens]] = [[] for _ in range(rows)]
        """Places of the tokens of each row."""
        self._ends: list[_Place | None] = [None] * rows
        self._lengths = [0] * rows
        self._count = 0

    def add(self, parts: Sequence[Tokens]) -> None:
        """Add what follows on each row, which may be nothing."""
        nodes: dict[tuple[_Place | None, bytes], _Node] = {}
        for row, part in enumerate(parts):
            if len(part):
                above = self._ends[row]
                nodes.setdefault((above, part.tobytes()), _Node(above, part)).rows.append(row)
        for level in _levels(list(nodes.values())):
            self._add_level(level)

    def _add_level(self, nodes: list[_Node]) -> None:
        first = self._count
        for number, node in enumerate(nodes):
            places = np.arange(self._count, self._count + len(node.tokens))
            self._count += len(node.tokens)
            self.ids.append(node.tokens)
            self.positions.append(self._lengths[node.rows[0]] + np.arange(len(node.tokens)))
            for row in node.rows:
                self.paths[row].append(places)
                self._ends[row] = _Place(len(self.levels), number)
                self._lengths[row] += len(node.tokens)
        lengths = torch.tensor([len(node.tokens) for node in nodes])
        real = torch.arange(int(lengths.max())) < lengths[:, None]
        slots = None if real.all() else real.flatten().nonzero()[:, 0]
        above = [node.above for node in nodes if node.above is not None]
        parents = Parents(above[0].level, torch.tensor([a.number for a in above])) if above else None
        self.levels.append(Level(slice(first, self._count), real, slots, parents))


def _levels(nodes: list[_Node]) -> Iterator[list[_Node]]:
    """Yield nodes of similar lengths below the same level together."""

    def order(node: _Node) -> tuple[int, int]:
        return -1 if node.above is None else node.above.level, -len(node.tokens)

    level: list[_Node] = []
    for node in sorted(nodes, key=order):
        if level and (
            order(node)[0] != order(level[0])[0] or len(node.tokens) < _SIMILAR * len(level[0].tokens)
        ):
            yield level
            level = []
        level.append(node)
    if level:
        yield level


def _shared_beginning(prompts: Sequence[Tokens]) -> int:
    shortest = min(map(len, prompts))
    same = np.stack([prompt[:shortest] for prompt in prompts])
    apart = (same != same[0]).any(0)
    return int(apart.argmax()) if apart.any() else shortest
