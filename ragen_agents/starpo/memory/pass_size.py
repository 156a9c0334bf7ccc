"""What is passed through a model at once, and how a pass computes."""

from dataclasses import dataclass
from typing import Final

FLOAT32: Final = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class PassSize:
    """The rows that are passed at once."""

    rows: int
    prompts: int
    """Different prompts; rows with equal ones share the pass over it."""
    before: int
    """Tokens of a prompt."""
    after: int
    """Tokens that follow it on a row."""

    @property
    def tokens(self) -> int:
        """Tokens that are computed."""
        return self.prompts * self.before + self.rows * self.after

    @property
    def key_tokens(self) -> int:
        """Tokens whose keys and values attention reads."""
        return self.prompts * self.before + self.rows * (self.before + self.after)

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key in the attention masks."""
        return self.prompts * self.before**2 + self.rows * self.after * (self.before + self.after)


@dataclass(frozen=True)
class Arithmetic:
    """How a pass computes."""

    bfloat16: bool
    """Whether products are in bfloat16 (autocast)."""
    rank: int = 0
    """Of the adapters; 0 where all weights learn."""
    recomputed: bool = False
    """Whether layers keep only their input for the backward pass."""
    float32_head: bool = False
    """Whether logits are computed in float32 although products are in bfloat16."""
    tree: bool = False
    """Whether tokens are passed as a tree, which is so on a CPU."""
    split: bool = False
    """Whether weights are split over processes."""

    @property
    def product(self) -> int:
        """Bytes of a number in products."""
        return 2 if self.bfloat16 else FLOAT32

    @property
    def state(self) -> int:
        """Bytes of a number in the states between layers; frozen weights in bfloat16 leave them so."""
        return 2 if self.bfloat16 and self.rank else FLOAT32

    @property
    def casts_weights(self) -> bool:
        """Whether autocast makes a bfloat16 copy of float32 weights that learn."""
        return self.bfloat16 and not self.rank
