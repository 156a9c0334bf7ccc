"""The table of gradients by the deviation of returns, from the kept results of the sweep ``gradient``."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import get_args

from ragen_agents.starpo.run.gradient_probe import BUCKETS
from ragen_agents.starpo.update.loss import Term

_ROWS = ("reward_std", *get_args(Term))


def buckets_table(archive: Path) -> str:
    """Return means over the probes of all runs, a row for each cell and quantity."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    runs: dict[str, int] = defaultdict(int)
    for line in archive.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        cell = result["task"]["cell"]
        if result["task"]["seed"] is None:
            continue
        runs[cell] += 1
        for name in _ROWS:
            for bucket in range(1, BUCKETS + 1):
                values = result["curves"][f"gradient/bucket{bucket}/{name}"]
                found[cell, name, bucket] += [value for value in values if value is not None]
    buckets = range(1, BUCKETS + 1)
    lines = [
        f"| advantage | runs | mean of | {' | '.join(f'bucket {k}' for k in buckets)} |",
        f"|---|--:|---|{'--:|' * BUCKETS}",
    ]
    for cell, count in runs.items():
        for name in _ROWS:
            shown = " | ".join(f"{fmean(found[cell, name, k]):.3g}" for k in buckets)
            what = "deviation of returns" if name == "reward_std" else f"gradient, {name}"
            lines.append(f"| `{cell}` | {count} | {what} | {shown} |")
    return "\n".join(lines) + "\n"
