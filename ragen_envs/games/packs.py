"""Make the frozen packs: ``python -m ragen_envs.games.packs [--check]``.

A game with frozen levels has a module ``packs`` beside its env, with a mapping ``PACKS`` from the name of
each of its distributions to a ``Recipe``. Levels are drawn from the stream of (split, distribution) in order.
Each split draws only levels that its keys own (``levels.splits``), so packs are disjoint up to symmetry. A
level may come up again in its pack, as in the distribution that it is drawn from. The result depends on
nothing but the source.
"""

import argparse
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

from ragen_envs.game.oracle import Budget
from ragen_envs.levels import instances
from ragen_envs.levels.splits import SPLITS, TEST, TRAIN, VALIDATION
from ragen_envs.registration import GAMES

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


def recipes() -> Mapping[str, Recipe]:
    """Return the recipe of every distribution that the games of the suite freeze."""
    modules = dict.fromkeys(f"{game.module}.packs" for game in GAMES if game.is_frozen)
    return {
        distribution: recipe
        for module in modules
        for distribution, recipe in import_module(module).PACKS.items()
    }


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
    parser.add_argument(
        "--check", action="store_true", help="compare with the files, write nothing"
    )
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
