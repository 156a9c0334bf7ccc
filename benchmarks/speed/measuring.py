"""Measure work, and draw its inputs beforehand.

Each benchmark is one cell of the table: ``extra_info`` holds its section, its row, who does the work, how
many items (steps, levels, texts) one call does, and, where the peer does something else, what.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ragen_envs

SIZES = (1, 64, 1024, 16384)
OURS, BOUND, GYMNASIUM, ENVPOOL, JUMANJI, GYM_SOKOBAN = (
    "ours", "bound", "Gymnasium", "envpool", "jumanji", "gym-sokoban"
)  # fmt: skip
_SAME_RULES = {"generator": "gym-sokoban"}
LAWS: dict[str, dict[str, Any]] = {
    "6x6/1": {"size": 6, "boxes": 1, **_SAME_RULES},
    "8x8/2": {"size": 8, "boxes": 2, **_SAME_RULES},
    "10x10/4": {"size": 10, "boxes": 4, **_SAME_RULES},
    "6x6/1, the paper's levels": {"size": 6, "boxes": 1},
    "8x8/2, the paper's levels": {"size": 8, "boxes": 2, "search_depth": 10},
}
"""Settings of Sokoban whose new levels are timed; the first ones have gym-sokoban's rules."""
LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]
"""Gymnasium's own 4x4 map."""
SECONDS = 0.25
"""Least time of a measurement."""

assert ragen_envs.GAMES


def batches(actions: int, count: int) -> Iterator[NDArray[np.int64]]:
    """Return an endless supply of (count,) actions; at least 2^16, or the branch predictor learns them."""
    rows = max(4, (1 << 16) // count)
    return cycle(list(np.random.default_rng(0).integers(actions, size=(rows, count))))


def measure(
    benchmark: Any,
    work: Callable[[], Any],
    section: str,
    row: str,
    who: str = OURS,
    items: float = 1,
    rounds: int = 0,
    note: str = "",
) -> None:
    """Benchmark a call that does ``items`` things.

    Args:
        benchmark: The fixture.
        work: The call.
        section: Table of the report.
        row: Row of the table.
        who: Column of the table.
        items: What one call does, in steps, levels or texts.
        rounds: Number of single calls to time, for distributions; 0 for as many as ``SECONDS`` take.
        note: What the reader must know of this cell.
    """
    benchmark.extra_info.update(section=section, row=row, who=who, items=items, note=note)
    if rounds:
        benchmark.pedantic(work, rounds=rounds, warmup_rounds=min(1, rounds // 10))
        return
    work()
    began = time.process_time()
    work()
    once = max(time.process_time() - began, 1e-7)
    calls = max(1, int(SECONDS / 15 / once))
    benchmark.pedantic(work, iterations=calls, rounds=15 if once < SECONDS else 3)
