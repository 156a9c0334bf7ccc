"""The recipe of the starter model: its passes, its size and its seed."""

from dataclasses import dataclass, field

from starter_build.demonstrations import Mixture


@dataclass(frozen=True)
class Stage:
    """One pass over fresh demonstrations."""

    demonstrations: int
    """Episodes; each is seen once."""
    learning_rate: float
    """Peak; warmed up over 2% of the steps, then cosine decay to a tenth."""
    mixture: Mixture = field(default_factory=Mixture)
    replies_only: bool = False
    """Whether the user's messages are not learned either."""
    batch_size: int = 16
    averaged: int = 1
    """Number of passes whose weights are averaged: its own and the last ones before."""


@dataclass(frozen=True)
class Recipe:
    """The settings that make the starter model; the shipped one has the defaults."""

    seed: int = 0
    stages: tuple[Stage, ...] = (
        Stage(46_000, 2.5e-3, Mixture(late=0.1)),
        Stage(16_000, 1.5e-3, Mixture(0.35, hurried=0.6)),
        Stage(5_000, 1e-3, Mixture(0.3, late=0.8)),
        Stage(12_000, 1e-3, Mixture(0.6, late=0.8), replies_only=True),
        Stage(14_000, 1e-3, Mixture(0.8, late=0.9), replies_only=True),
        Stage(10_000, 1e-3, Mixture(0.25, 0.3, 0.5), replies_only=True),
        Stage(13_000, 1e-3, Mixture(0.65, 0.2, 0.4, cubes=0.06), replies_only=True),
        Stage(10_000, 7e-4, Mixture(0.7, 0.2, 0.4, cubes=0.05), replies_only=True),
        Stage(12_000, 5e-4, Mixture(0.85, 0.1, 0.2, cubes=0.02), replies_only=True, batch_size=8),
        Stage(12_000, 4e-4, Mixture(0.9, 0.1, 0.2, cubes=0.02), replies_only=True, batch_size=8, averaged=2),
        Stage(
            6_000,
            3e-4,
            Mixture(0.45, 0.3, 0.5, most_left=9, cubes=0.02, large=0.25, guided=0.3),
            replies_only=True,
            batch_size=8,
        ),
    )
    """The later stages teach to copy names without fail, and to count what is left."""
    hidden_size: int = 128
    layers: int = 5
    heads: int = 4
    kv_heads: int = 2
    intermediate_size: int = 384
