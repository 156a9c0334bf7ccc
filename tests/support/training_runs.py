"""Small training runs, and what they leave behind."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from forked import run
from torch.distributed import TCPStore
from transformers import AutoModelForCausalLM

from ragen_agents.starpo import PRESETS, TrainConfig, merged
from ragen_agents.starpo.callbacks import ReportMetrics
from ragen_agents.starpo.trainer import Trainer

SMALL = {
    "rollout": {"prompts_per_iteration": 2, "group_size": 4, "max_tokens": 12},
    "update": {"mini_batch_size": 4, "learning_rate": 1e-3, "critic_learning_rate": 1e-3},
    "evaluation": {"every": 2, "episodes": 4},
    "env_kwargs": {"max_turns": 2},
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
        "evaluation.episodes=4", "filter.kind=none", "env_kwargs.max_turns=2", *more,
    ]  # fmt: skip


def torchrun(arguments):
    """Return the command by which two processes run what follows python in a command."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return [*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *arguments[1:]]


def two_processes_environment():
    more = {"OMP_NUM_THREADS": "1", "MASTER_PORT": "0", "PYTHONFAULTHANDLER": "1"}
    return {**os.environ, **more}


def alone(arguments):
    """Run what follows python in a command in a process of its own."""
    (done,) = run((arguments[1:], {"OMP_NUM_THREADS": "1"}))
    assert done.returncode == 0, done.stderr


def under_torchrun(arguments):
    """Run what follows python in a command under torchrun, in two processes."""
    (done,) = run((torchrun(arguments)[1:], two_processes_environment()), timeout=300)
    assert done.returncode == 0, done.stderr


def in_two_processes(arguments, succeeds=True):
    """Run what follows python in a command in two processes, with the variables that torchrun sets.

    Returns what both print, or what they say of their failure. Both end by themselves.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        **two_processes_environment(), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
        "TORCHELASTIC_RUN_ID": "tests", "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    both = [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    done = run(*((arguments[1:], environment) for environment in both))
    said = "".join(each.stderr for each in done)
    assert all((each.returncode == 0) == succeeds for each in done), said
    return "".join(each.stdout for each in done) if succeeds else said


def assert_same_run(alone, together, iterations):
    for one, two in zip(lines(alone), lines(together), strict=True):
        assert one.keys() == two.keys()
        for name in one:
            if name != "warnings":
                assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    last = Path("checkpoints", f"{iterations:06d}")
    assert_equal_weights(alone / last, together / last, 1e-4)
