"""A small training sweep, and the processes of its tasks."""

import time
from pathlib import Path

from ragen_agents.run_files.yaml_files import dump_yaml

SMALL_TRAIN = {
    "rollout": {"prompts_per_iteration": 2, "group_size": 4, "max_tokens": 24}, "save_every": 1,
}  # fmt: skip


def small_sweep(folder, iterations=2, **changes):
    data = {
        "name": "small", "version": 1, "description": "For tests.", "preset": "starpo-grpo",
        "train": SMALL_TRAIN, "games": {"Bandit": ["Bandit"]}, "reference": "a", "cells": {"a": {}},
        "scales": {"laptop": {"iterations": iterations, "quick": iterations}}, **changes,
    }  # fmt: skip
    path = folder / "small.yaml"
    path.write_text(dump_yaml(data))
    return path


def command(sweep, tiny, out, *more):
    return ["train-sweep", str(sweep), "--quick", "--model", str(tiny), "--out", str(out), *more]


def wait_for(found, seconds=300):
    for _ in range(10 * seconds):
        if found():
            return
        time.sleep(0.1)
    raise AssertionError("waited too long")


def processes_of(folder):
    """Ids of the processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"ragen_bench.training_sweeps.work\0{folder.resolve()}" in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
