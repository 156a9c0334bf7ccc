"""``PYTHONPATH=benchmarks python -m starter_build OUT``: build a starter model, in an hour on two cores."""

import argparse
import logging
from pathlib import Path

from ragen_agents.allocator import keep_freed_memory
from starter_build.build import build
from starter_build.recipe import Recipe

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the model")
    parser.add_argument("--seed", type=int, default=0, help="of the demonstrations and the weights")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    keep_freed_memory()
    build(given.out, Recipe(seed=given.seed))
