"""Rollouts of the same work by several engines in one run: tokens a second, and where time goes.

``.venv-vllm/bin/python benchmarks/speed/engines.py --engine transformers --engine vllm``

Each engine trains the model on the same levels. The learning rate is so small that the model stays what it
is, so all write replies of the same distribution; they draw differently, so the replies are not the same. The
first iteration, which loads and compiles, is left out, and sums are over the others.
"""

import argparse
import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")

from transformers.utils import logging as transformers_logging

from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.callbacks import ReportMetrics
from ragen_agents.starpo.trainer import Trainer

STILL = 1e-12
"""A learning rate that leaves the model as it is."""
ENGINES = ("transformers", "vllm", "vllm-server")


def measure(config: TrainConfig) -> dict[str, float]:
    """Return the sums of a run's iterations but the first: trajectories, tokens, seconds by phase."""
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        Trainer(config, folder, callbacks=[ReportMetrics(lambda _, metrics: rows.append(metrics))]).run()
    sums = {"trajectories": float(config.episodes * len(rows[1:]))}
    sums["tokens"] = sum(row["reply_tokens"] * row["turns"] * config.episodes for row in rows[1:])
    for phase in ("rollout", "games", "scores", "update", "sync", "total"):
        sums[phase] = sum(row.get(f"seconds/{phase}", 0.0) for row in rows[1:])
    sums["engine"] = sums["rollout"] - sums["games"]
    return sums


def lines(found: dict[str, dict[str, float]]) -> list[str]:
    """Return a table in Markdown, one column for each engine."""
    rates = {
        "tokens written a second of rollout": lambda s: f"{s['tokens'] / s['rollout']:,.0f}",
        "trajectories a second of rollout": lambda s: f"{s['trajectories'] / s['rollout']:.1f}",
        "games, % of the rollout": lambda s: f"{100 * s['games'] / s['rollout']:.1f}",
        "seconds an iteration": lambda s: f"{s['total'] * s['size'] / s['trajectories']:.2f}",
    }
    for phase in ("engine", "games", "scores", "update", "sync"):
        rates[f"{phase}, % of the iteration"] = lambda s, p=phase: f"{100 * s[p] / s['total']:.1f}"
    table = ["| | " + " | ".join(found) + " |", "|---|" + "--:|" * len(found)]
    for name, rate in rates.items():
        table.append(f"| {name} | " + " | ".join(rate(sums) for sums in found.values()) + " |")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", action="append", choices=ENGINES, required=True)
    parser.add_argument("--game", default="ragen/SokobanText-v0")
    parser.add_argument("--model", default="starter")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--preset", default="starpo-s", choices=list(PRESETS))
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of vllm-server")
    args = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    fixed = {
        "game": args.game, "model": args.model, "iterations": args.iterations,
        "update": {"learning_rate": STILL, "critic_learning_rate": STILL},
        "evaluation": {"every": 0}, "monitor": {"information_every": 0}, "save_every": 10_000,
        "server": {"url": args.url},
    }  # fmt: skip
    found = {}
    for engine in args.engine:
        config = TrainConfig(**merged(SCALES["laptop"], PRESETS[args.preset], fixed, {"engine": engine}))
        found[engine] = {**measure(config), "size": float(config.episodes)}
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
