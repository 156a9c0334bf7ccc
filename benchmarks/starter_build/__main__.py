"""``PYTHONPATH=benchmarks python -m starter_build OUT``: build a starter model, in an hour on two cores."""

import argparse
import logging
from pathlib import Path

from ragen_agents.allocator import keep_freed_memory
from starter_build.build import build
from starter_build.recipe import Recipe

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m starter_build", description="Build a starter model.")
    parser.add_argument("out", type=Path, help="folder of the model")
    parser.add_argument("--seed", type=int, default=0, help="of the demonstrations and the weights")
    given = parser.parse_args()
    if given.out.exists() and not (given.out / "recipe.json").exists():
        parser.error(f"'{given.out}' exists and is not an earlier build")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    keep_freed_memory()
    build(given.out, Recipe(seed=given.seed))
