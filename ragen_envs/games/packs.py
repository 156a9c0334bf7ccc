"""Make the frozen packs: ``python -m ragen_envs.games.packs [--check]``.

Levels are drawn from the stream of (split, distribution) in order. Each split draws only levels that its
keys own (``levels.splits``), so packs are disjoint up to symmetry. A level may come up again in its pack, as
in the distribution that it is drawn from. The result depends on nothing but the source.
"""

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Budget
from ragen_envs.games.bandit.generator import every_pair
from ragen_envs.games.countdown import CountdownEnv
from ragen_envs.games.cube import CubeEnv
from ragen_envs.games.cube.generator import every_level
from ragen_envs.games.frozen_lake import FrozenLakeEnv
from ragen_envs.games.mastermind import MastermindEnv
from ragen_envs.games.mastermind.oracle import guesses_needed
from ragen_envs.games.minesweeper import MinesweeperEnv
from ragen_envs.games.sokoban import SokobanEnv
from ragen_envs.games.sudoku import SudokuEnv
from ragen_envs.games.webshop import WebShopEnv
from ragen_envs.games.webshop.dynamics import Page
from ragen_envs.games.webshop.oracle import best_plan, offers, perfect
from ragen_envs.levels import instances
from ragen_envs.levels.seeding import Rng, new_stream
from ragen_envs.levels.splits import SPLITS, TEST, TRAIN, VALIDATION

Row = dict[str, Any]
"""A line of a pack: ``level``, and what was computed about it: ``moves`` of a shortest solution, and
``chance``, the probability that the random policy succeeds within ``USUAL``."""

Recipe = Callable[[str], Iterator[Row]]
"""Yields the levels of a split in the order of the pack, of which any prefix must be like the whole:
independent draws from the game's level distribution, or all levels in a random order."""

USUAL: Final = Budget(actions=10, turns=5, actions_per_turn=5)
"""The limits of a conversation by default, which are the paper's."""

COUNTS: Final = {TRAIN: 2048, VALIDATION: 512, TEST: 1024}
"""Most instances of each split."""
FOLDER: Final = Path(instances.__file__).parent / "packs"

_LOG: Final = logging.getLogger("ragen.instances")


def drawn(env: GameEnv[Any], facts: Callable[[Any], Row], split: str) -> Iterator[Row]:
    """Yield independent draws from the level distribution of a game without end."""
    env.rng = Rng(new_stream(split, f"pack {env.distribution}", 0))
    while True:
        env._start_fresh(split)
        yield {"level": env.level, **facts(env)}


def moves_and_chance(env: GameEnv[Any]) -> Row:
    """Return the moves of a shortest solution, and the chance of random play."""
    baseline = env.random_baseline(USUAL)
    assert baseline is not None
    return {"moves": env.measures()["solution_length"], "chance": round(baseline.success, 6)}


def shopping(env: WebShopEnv) -> Row:
    """Measure the difficulty of a goal of WebShop.

    ``moves``: fewest actions of a perfect purchase; ``perfect``: products that can be bought for a score of
    1; ``near``: others that miss a single point.
    """
    near = sum(
        offer.type == 1 and offer.base + len(offer.helpful) == offer.most - 1
        for offer in offers(env.catalogue, env.goal)
    )
    plan = best_plan(env.catalogue, env.goal, Page(), 100)
    best = len(perfect(env.catalogue, env.goal))
    return {"moves": len(plan.actions), "perfect": best, "near": near}


def cubes(scramble: int, split: str) -> Iterator[Row]:
    """Yield every level that so many turns make."""
    env = CubeEnv(scramble)
    for level in every_level(scramble, split):
        env.start(level)
        yield {"level": level, **moves_and_chance(env)}


def bandits(split: str) -> Iterator[Row]:
    """Yield every pair of arms."""
    return ({"level": "/".join(pair), "chance": 0.5} for pair in every_pair(split))


def recipes() -> Mapping[str, Recipe]:
    """Return the recipe of every distribution that the games of the suite freeze."""
    large = SokobanEnv(size=8, boxes=2, search_depth=10)
    facts: list[tuple[GameEnv[Any], Callable[[Any], Row]]] = [
        (SokobanEnv(), moves_and_chance),
        (large, moves_and_chance),
        # Random play does not care about slips: a random direction that slips is a random direction.
        (FrozenLakeEnv(success_rate=1.0), moves_and_chance),
        (CountdownEnv(), moves_and_chance),
        (MastermindEnv(), lambda env: {"moves": guesses_needed(env.level)}),
        (SudokuEnv(), lambda env: {"moves": env.grid.count(0)}),
        (MinesweeperEnv(), lambda env: {"optimum": round(env.oracle().value, 6)}),
        (WebShopEnv(), shopping),
    ]
    made = {env.distribution: partial(drawn, env, about) for env, about in facts}
    return {"bandit": bandits, "cube-8": partial(cubes, 8), **made}


def build() -> dict[str, bytes]:
    """Return the contents of every file of the packs' folder."""
    files: dict[str, bytes] = {}
    for (distribution, recipe), split in product(recipes().items(), SPLITS):
        rows = list(islice(recipe(split), COUNTS[split]))
        lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        files[f"{distribution}.{split}.jsonl"] = "".join(lines).encode()
        fewer = "" if len(rows) == COUNTS[split] else f", all there are of {COUNTS[split]}"
        _LOG.info("%s.%s: %d instances%s", distribution, split, len(rows), fewer)
    manifest = {
        name: {"instances": data.count(b"\n"), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files.items())
    }
    files["MANIFEST.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    return files


def main() -> int:
    """Write the packs, or compare them with ``--check``; 1 if a file differs."""
    parser = argparse.ArgumentParser(description="Make the frozen packs.")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    check = parser.parse_args().check
    logging.basicConfig(format="%(message)s")
    _LOG.setLevel(logging.INFO)
    differing = 0
    for name, data in build().items():
        path = FOLDER / name
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        elif not path.exists() or path.read_bytes() != data:
            print(f"{name} differs", file=sys.stderr)
            differing += 1
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
