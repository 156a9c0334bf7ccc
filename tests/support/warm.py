"""What most programs of the tests use, loaded once by the server that forks them.

A child inherits the modules and the machine code of the games, which it would otherwise load anew.
"""

import gc
import importlib
from contextlib import suppress

import gymnasium
import typer.main

MODULES = [
    "matplotlib.pyplot", "numba", "peft", "pettingzoo", "scipy.stats", "transformers.trainer",
    "transformers.models.llama.modeling_llama", "ragen_envs.multi_agent", "ragen_agents.sft_trainer",
    "ragen_agents.starter.blank", "ragen_bench.reproduction.reproduction_report",
    "ragen_bench.training_sweeps.work",
]  # fmt: skip

for name in MODULES:
    with suppress(ImportError):
        importlib.import_module(name)
for game in ("ragen/Sokoban-v0", "ragen/FrozenLake-v0"):
    env = gymnasium.make(game)
    env.reset(seed=0)
    env.unwrapped.oracle()
    env.unwrapped.random_baseline()

gc.freeze()
command = typer.main.get_command(importlib.import_module("ragen_bench.cli").app)
typer.main.get_command = lambda app: command
