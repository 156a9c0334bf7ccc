"""Small training runs, and what they leave behind."""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

from ragen_agents.starpo import PRESETS, TrainConfig, merged
from ragen_agents.starpo.callbacks import ReportMetrics
from ragen_agents.starpo.trainer import Trainer

SMALL = {
    "rollout": {"prompts_per_iteration": 2, "group_size": 4, "max_tokens": 24},
    "update": {"mini_batch_size": 4, "learning_rate": 1e-3, "critic_learning_rate": 1e-3},
    "evaluation": {"every": 2, "episodes": 4},
    "save_every": 1,
    "iterations": 2,
}


def trainer(folder, *layers, preset="starpo-s", reports=None, callbacks=(), **parts):
    config = TrainConfig(**merged(SMALL, PRESETS[preset], *layers))
    folder.mkdir(exist_ok=True)
    if reports is not None:
        callbacks = [*callbacks, ReportMetrics(lambda i, m: reports.append((i, m)))]
    return Trainer(config, folder, callbacks=callbacks, **parts)


def lines(folder):
    """Metrics without what depends on the clock."""
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("seconds/")} for line in found]


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def assert_equal_weights(first, second, tolerance=0.0):
    for (name, a), b in zip(weights(first).items(), weights(second).values(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=tolerance), name


def command(tiny, out, *more, iterations=6):
    return [
        sys.executable, "-m", "ragen_bench", "train", "frozenlake-deterministic", "--out", str(out),
        f"model={tiny}", f"iterations={iterations}", "rollout.prompts_per_iteration=2",
        "rollout.group_size=4",
        "rollout.max_tokens=16", "update.mini_batch_size=4", "save_every=1", "evaluation.every=3",
        "evaluation.episodes=4", "filter.kind=none", *more,
    ]  # fmt: skip
