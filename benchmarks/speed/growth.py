"""Measure how cost grows with size: times at several sizes, and the exponent that fits them.

    python benchmarks/speed/growth.py docs/performance.md [CURVE ...]

An exponent of 1 is proportional, 2 quadratic. It is the slope of log time over log size at the larger
half of the sizes, where fixed costs weigh least. Curves that are named are measured, else all; the others
stay in the document as they are.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
from page_blocks import filled

import ragen_envs
from ragen_envs.conversation import ConversationWrapper, make

assert ragen_envs.GAMES

SECONDS = 0.5
"""Least time of a measurement of calls in this process."""
COMMANDS = ("bench", "show", "verify", "compare")
PACK = 1024
"""Test levels of a game."""
SUITE = f"""\
name: growth
version: 1
description: Bandit many times over.
split: test
episodes: {PACK}
seed: 0
sampling: {{temperature: 0.5, max_tokens: 200}}
tasks:
  Bandit0: &bandit {{env: ragen/BanditText-v0}}
"""
_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


class Point(NamedTuple):
    """What one size costs."""

    size: int
    seconds: float
    """Of all of it, not of one part."""
    mib: float | None = None
    """Most memory of the process, where it was measured."""


Curve = dict[str, list[Point]]
"""Points by what was done."""


def exponent(points: list[Point]) -> float:
    """Return the slope of log time over log size at the larger half of the sizes."""
    half = points[(len(points) - 1) // 2 :]
    sizes, seconds = ([getattr(p, name) for p in half] for name in ("size", "seconds"))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def timed(work: Callable[[], Any]) -> float:
    """Return the median seconds of a call, after one that is not counted."""
    work()
    found: list[float] = []
    while len(found) < 3 or sum(found) < SECONDS:
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found)


def envs() -> Curve:
    """Return the time of one step of vectors of many sizes."""
    games: dict[str, dict[str, Any]] = {
        "ragen/FrozenLake-v0": {},
        "ragen/Sokoban-v0": {"max_episode_steps": 1 << 30},
    }
    curve: Curve = {}
    for name, keywords in games.items():
        points = curve[f"a step of {name}"] = []
        for count in (1, 16, 256, 4096, 65536):
            vector: Any = gym.make_vec(name, num_envs=count, **keywords)
            vector.reset(seed=0)
            rows = np.random.default_rng(0).integers(4, size=(16, count))

            def work(vector: Any = vector, rows: Any = rows) -> None:
                for row in rows:
                    vector.step(row)

            points.append(Point(count, timed(work) / len(rows)))
    return curve


def turns() -> Curve:
    """Return times of conversations of many lengths: the games alone, rollouts with a model, updates."""
    games, rollouts, updates = "the games of 64 conversations", "rollouts", "scores and update"
    curve: Curve = {games: [], rollouts: [], updates: []}
    reply = "<think>I wait here.</think><answer>Up</answer>"
    for count in (1, 2, 5, 10, 20, 40):
        envs = [make("ragen/SokobanText-v0", max_turns=count, max_actions=1000) for _ in range(64)]

        def work(envs: list[ConversationWrapper] = envs) -> None:
            for seed, env in enumerate(envs):
                env.reset(seed=seed)
            while running := [env for env in envs if env.end is None]:
                for env in running:
                    _ = env.messages
                    env.play(reply)

        curve[games].append(Point(count, timed(work)))
        found = trained({"env_kwargs": {"max_turns": count, "max_actions": 1000}})
        for name in (rollouts, updates):
            curve[name].append(Point(count, found[name]))
    return curve


def trained(settings: dict[str, Any]) -> dict[str, float]:
    """Return seconds of the second of two iterations, with a small model of random weights.

    Its replies are 12 tokens that are no answers, so every conversation lasts for all its turns.
    """
    from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, Trainer, merged
    from ragen_agents.starpo.callbacks import ReportMetrics

    fixed = {
        "game": "ragen/SokobanText-v0", "iterations": 2, "evaluation": {"every": 0},
        "monitor": {"information_every": 0}, "save_every": 1000,
        "rollout": {"max_tokens": 12, "prompts_per_iteration": 2, "group_size": 8},
        "update": {"mini_batch_size": 1000}, "filter": {"kind": "none"},
    }  # fmt: skip
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder) / "model")
        config = TrainConfig(
            **merged(SCALES["laptop"], PRESETS["starpo-grpo"], fixed, {"model": str(model)}, settings)
        )
        report = ReportMetrics(lambda _, metrics: rows.append(metrics))
        Trainer(config, Path(folder) / "run", callbacks=[report]).run()
    last = rows[-1]
    return {
        "rollouts": last["seconds/rollout"],
        "scores and update": last["seconds/scores"] + last["seconds/update"],
    }


def random_model(folder: Path) -> Path:
    """Write a model of the starter's shape and tokenizer that can read long conversations."""
    import torch
    from transformers import AutoTokenizer

    from ragen_agents.starter import STARTER
    from ragen_agents.starter.blank import as_llama, new_model

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    model = as_llama(new_model(tokenizer, 128, 5, 384))
    model.config.max_position_embeddings = 1 << 14
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def episodes() -> Curve:
    """Return times and memory of commands by the episodes of a run; `compare` reads two such runs."""
    curve: Curve = {f"ragen {name}": [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for tasks in (1, 10, 98):
            count = tasks * PACK
            suite = Path(folder) / f"{tasks}.yaml"
            suite.write_text(SUITE + "".join(f"  Bandit{k}: *bandit\n" for k in range(1, tasks)))
            runs = [f"{folder}/{letter}{count}" for letter in "ab"]
            play = ["--agent", "random", "--suite", str(suite), "--out"]
            called("bench", *play, runs[0], "--seed", "1")
            words = {
                "bench": [*play, runs[1]],
                "show": runs[:1],
                "verify": runs[:1],
                "compare": runs,
            }
            for name in COMMANDS:
                curve[f"ragen {name}"].append(Point(count, *called(name, *words[name])))
    return curve


def called(*words: str) -> tuple[float, float]:
    """Run a command; returns its seconds and the most memory that it took, in MiB."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "ragen_bench", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ragen {' '.join(words)} ended with {process.returncode}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


CURVES: dict[str, tuple[str, Callable[[], Curve]]] = {
    "envs": ("Envs of a vector", envs),
    "turns": ("Turns of a conversation", turns),
    "episodes": ("Episodes of a run", episodes),
}


def measured(name: str) -> Curve:
    """Measure a curve in this process."""
    return CURVES[name][1]()


def table(title: str, curve: Curve) -> list[str]:
    """Return a table in Markdown."""
    sizes = [point.size for point in next(iter(curve.values()))]
    lines = [
        f"| {title} | {' | '.join(f'{size:,}' for size in sizes)} | exponent |",
        f"|---|{'--:|' * (len(sizes) + 1)}",
    ]
    for name, points in curve.items():
        cells = " | ".join(_shown(point) for point in points)
        lines.append(f"| {name} | {cells} | {exponent(points):.2f} |")
    return lines


def _shown(point: Point) -> str:
    unit, factor = next((u for u in _UNITS if point.seconds >= u[1]), _UNITS[-1])
    memory = "" if point.mib is None else f", {point.mib:.0f} MiB"
    return f"{point.seconds / factor:.3g} {unit}{memory}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document", type=Path)
    parser.add_argument("curves", nargs="*", metavar="CURVE", help=", ".join(CURVES))
    args = parser.parse_args()
    if unknown := set(args.curves) - set(CURVES):
        parser.error(f"unknown curves {', '.join(sorted(unknown))}; known are {', '.join(CURVES)}")
    for name in args.curves or CURVES:
        title, _ = CURVES[name]
        print(f"{title} ...", file=sys.stderr)
        # Each in a process of its own: a child's peak memory starts at what its parent has at the fork.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            curve = pool.submit(measured, name).result()
        lines = "\n".join(table(title, curve))
        page = filled(args.document.read_text("utf-8"), {f"growth of {name}": lines})
        args.document.write_text(page, "utf-8", newline="\n")
        print(lines)


if __name__ == "__main__":
    main()
