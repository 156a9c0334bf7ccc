"""Measure how early, at how many false alarms, each metric announces a collapse in the kept training runs.

    PYTHONPATH=benchmarks python benchmarks/early_signs.py

A run has collapsed if success in its last ten iterations is below half of its best ten, and its return
below that of its first five. It is healthy if success is at least 80% of its first five iterations' or the
return is not lower; what lies between is left out. A metric is smoothed over three iterations and compared
with its first five. Thresholds are chosen on even seeds, so that the share of healthy runs with an alarm is
the one asked for, and tried on odd seeds. An alarm is early if it comes before the monitor sees the collapse.
"""

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from page_blocks import filled

from ragen_agents.starpo.config import Monitor
from ragen_agents.starpo.run.monitor import EchoTrapMonitor

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/training-results.md"
SIGNS = {
    "reward_std": -1, "entropy": -1, "template_share": 1, "grad_norm": 1, "clip_fraction": 1,
    "valid": -1, "thought_characters": -1,
}  # fmt: skip
"""Metrics, and whether an alarm is a rise (1) or a fall (-1)."""
RATE = 0.1
"""False alarms wanted."""
WINDOW = 5


class Run(NamedTuple):
    """A kept run of at least twenty iterations."""

    game: str
    seed: int
    collapsed: bool
    seen: int | None
    """Iteration of the monitor's collapse sign."""
    scores: dict[str, np.ndarray]
    """How far each metric has moved towards an alarm, by iteration; -inf while it is not known."""


def runs(sweeps: str = "*") -> tuple[list[Run], list[str]]:
    """Return the runs of some sweeps, each once, and the healthy ones in which the monitor saw a collapse."""
    known, found, false = set(), [], []
    for path in sorted((ROOT / "benchmarks/results/laptop").glob(f"{sweeps}.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            result = json.loads(line)
            task, curves = result["task"], result["curves"]
            key = json.dumps([curves.get("success"), curves.get("grad_norm")])
            if not curves or key in known:
                continue
            known.add(key)
            rows = [
                {name: values[i] for name, values in curves.items() if values[i] is not None}
                for i in range(len(curves["success"]))
            ]
            rows = [row for row in rows if "success" in row]
            outcome = collapsed(rows)
            if outcome is None:
                continue
            seen = first_collapse(rows)
            if seen is not None and not outcome:
                false.append(f"{task['game']} {task['cell']} {task['seed']}")
            found.append(Run(task["game"], task["seed"], outcome, seen, scores(rows)))
    return found, false


def collapsed(rows: list[dict[str, Any]]) -> bool | None:
    """Return whether a run has collapsed; None if it is too short or neither collapsed nor healthy."""
    success, returns = (np.array([row[name] for row in rows]) for name in ("success", "return"))
    if len(rows) < 20:
        return None
    first, last = success[:5].mean(), success[-10:].mean()
    best = max(first, *np.convolve(success, np.ones(10) / 10, "valid"))
    if best > 0.05 and last < best / 2 and returns[-10:].mean() < returns[:5].mean():
        return True
    healthy = last >= 0.8 * first or returns[-10:].mean() >= returns[:5].mean()
    return False if healthy else None


def first_collapse(rows: list[dict[str, Any]]) -> int | None:
    """Return the iteration in which the monitor sees a collapse."""
    monitor = EchoTrapMonitor(Monitor())
    for number, row in enumerate(rows, 1):
        plain = {name: value for name, value in row.items() if "/" not in name}
        if "collapse" in monitor.observe(plain):
            return number
    return None


def scores(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return the log-ratios of smoothed metrics to their first values, positive towards an alarm."""
    found = {}
    for name, sign in SIGNS.items():
        values = np.array([row.get(name, np.nan) for row in rows], float)
        if np.isfinite(values).sum() < 3:
            continue
        start = np.nanmean(values[:WINDOW])
        smooth = np.array([np.nanmean(values[max(0, i - 2) : i + 1]) for i in range(len(values))])
        ratio = sign * np.log((np.abs(smooth) + 1e-3) / (abs(start) + 1e-3))
        ratio[:WINDOW] = np.nan
        found[name] = np.nan_to_num(ratio, nan=-np.inf)
    usual = [found[name] for name in ("reward_std", "entropy", "grad_norm", "template_share")]
    found["mean of the first four"] = np.mean(usual, axis=0)
    return found


def line(name: str, every: list[Run]) -> str:
    """Return a row of the table: what a metric does on odd seeds at ``RATE`` of false alarms on even ones."""
    known = [run for run in every if name in run.scores]
    calm = [run.scores[name].max() for run in known if not run.collapsed and run.seed % 2 == 0]
    threshold = float(np.quantile(calm, 1 - RATE))
    tried = [run for run in known if run.seed % 2]
    alarms = [np.flatnonzero(run.scores[name] > threshold) for run in tried]
    healthy = [len(a) > 0 for run, a in zip(tried, alarms, strict=True) if not run.collapsed]
    broken = [(run, a) for run, a in zip(tried, alarms, strict=True) if run.collapsed]
    leads = [(run.seen or len(run.scores[name]) + 1) - (a[0] + 1) if len(a) else -np.inf for run, a in broken]
    early = [lead for lead in leads if lead > 0]
    lead = f"{np.median(early):.0f}" if early else "–"
    false = f"{100 * np.mean(healthy):.0f} ({sum(healthy)}/{len(healthy)})"
    true = f"{100 * len(early) / max(len(leads), 1):.0f} ({len(early)}/{len(leads)})"
    return f"| {name} | {false} | {true} | {lead} |"


def table() -> str:
    """Return the table and what the monitor itself does, as Markdown."""
    every, false = runs()
    broken = [run for run in every if run.collapsed]
    healthy = len(every) - len(broken)
    bandits = sum(text.startswith("Bandit") for text in false)
    rows = [line(name, every) for name in [*SIGNS, "mean of the first four"]]
    return "\n".join(
        [
            f"Of {len(broken)} collapsed runs, the monitor's sign of collapse is seen in "
            f"{sum(run.seen is not None for run in broken)}; of {healthy} healthy runs in {len(false)}, "
            f"{bandits} of them on bandits.",
            "",
            "| metric | false alarms, % | early, % | lead, iterations |",
            "|---|--:|--:|--:|",
            *rows,
        ]
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    found = table()
    PAGE.write_text(filled(PAGE.read_text("utf-8"), {"early signs": found}), "utf-8")
    print(found)
