"""What was found for one claim, before other claims are taken into account."""

import math
from collections.abc import Callable
from typing import NamedTuple

from ragen_bench.reproduction.remedies import Remedy


class Finding(NamedTuple):
    """The effect that was seen, and how surprising it is if there is none."""

    favourable: bool
    """Whether what was seen is on the claim's side."""
    p_value: float
    """Of there being nothing, or of the other side, two-sided; nan where nothing can be tested."""
    paper: str
    ours: str
    seeds: int = 0
    """Runs of each setting; the smaller number where they differ."""
    remedy: Callable[[float], Remedy] = lambda _: Remedy()
    """What would decide it if it is undecided, by the level at which it must be tested."""
    p_half: float = math.nan
    """Of an effect of at least half of the paper's; nan where the paper prints none on the claim's side."""
