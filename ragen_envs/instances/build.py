"""Make the frozen packs: ``python -m ragen_envs.instances.build [--check]``.

Levels are drawn from the stream of (split, distribution), in order, and kept if no earlier one of the
pack has the same key. Each split draws only levels that its keys own (``ragen_envs.splits``), so packs
are disjoint up to symmetry. The result depends on nothing but this source.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragen_envs import seeding
from ragen_envs.bandit import generator as bandit
from ragen_envs.frozen_lake import generator as frozen_lake
from ragen_envs.frozen_lake.dynamics import GOAL
from ragen_envs.frozen_lake.oracle import advise
from ragen_envs.frozen_lake.text import encode_level as encode_map
from ragen_envs.keys import grid_key
from ragen_envs.oracle import Budget
from ragen_envs.sokoban import generator as sokoban
from ragen_envs.sokoban.solver import solve
from ragen_envs.sokoban.text import encode_level as encode_board
from ragen_envs.splits import SPLITS, TEST, TRAIN, VALIDATION

COUNTS: Final = {TRAIN: 2048, VALIDATION: 512, TEST: 1024}
FOLDER: Final = Path(__file__).parent / "packs"

Row = dict[str, Any]


def sokoban_rows(size: int, boxes: int, split: str) -> Iterator[tuple[int, Row]]:
    """Yield (key, row) of fresh Sokoban levels without end."""
    stream = seeding.new_stream(split, f"pack sokoban-{size}x{size}-{boxes}", 0)
    while True:
        board, _, stream = sokoban.generate(size, size, boxes, stream, split)
        solution = solve(np.frombuffer(board, np.uint8).reshape(size, size))
        assert solution is not None
        row = {"level": encode_board(board, size), "moves": len(solution)}
        yield grid_key(board, size, size), row


def frozen_lake_rows(size: int, p: float, split: str) -> Iterator[tuple[int, Row]]:
    """Yield (key, row) of fresh FrozenLake maps without end."""
    stream = seeding.new_stream(split, f"pack frozen_lake-{size}x{size}-{p:g}", 0)
    while True:
        tiles, start, stream = frozen_lake.generate(size, size, p, stream, split)
        path = advise(bytes(tiles), size, size, 1.0, start, Budget(size * size, 1, size * size))
        assert tiles.count(GOAL) == 1
        row = {"level": encode_map(tiles, size, start), "moves": len(path.actions)}
        yield frozen_lake.map_key(tiles, size, size, start), row


def bandit_rows(split: str) -> Iterator[Row]:
    """Yield each pair of the split in both orders, over and over: every round is another draw."""
    pairs = bandit.name_pairs()[split]
    while True:
        for safe, risky in pairs:
            yield {"level": f"{safe}/{risky}"}
            yield {"level": f"{risky}/{safe}"}


def distinct(rows: Iterator[tuple[int, Row]], count: int) -> list[Row]:
    """Return the first rows with distinct keys."""
    kept: dict[int, Row] = {}
    for key, row in rows:
        kept.setdefault(key, row)
        if len(kept) == count:
            break
    return list(kept.values())


def rows_of(distribution: str, split: str) -> list[Row]:
    """Return the rows of one pack."""
    count = COUNTS[split]
    if distribution == "bandit":
        return list(islice(bandit_rows(split), count))
    return distinct(_GRIDS[distribution](split), count)


_GRIDS: Final[dict[str, Callable[[str], Iterator[tuple[int, Row]]]]] = {
    "sokoban-6x6-1": partial(sokoban_rows, 6, 1),
    "sokoban-8x8-2": partial(sokoban_rows, 8, 2),
    "frozen_lake-4x4-0.8": partial(frozen_lake_rows, 4, 0.8),
}


def build() -> dict[str, bytes]:
    """Return the contents of every file of the packs' folder."""
    files: dict[str, bytes] = {}
    for distribution, split in product(("bandit", *_GRIDS), SPLITS):
        rows = rows_of(distribution, split)
        lines = (json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
        files[f"{distribution}.{split}.jsonl"] = "".join(lines).encode()
        print(f"{distribution}.{split}: {len(rows)} instances", file=sys.stderr)
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
