"""Write the table of scores in docs/scores.md.

    ragen bench --agent random --agent starter --agent oracle --suite core --out RUN
    python docs/write_scores.py RUN

The table stands between the comments ``begin: scores`` and ``end: scores``.
"""

import re
import sys
from pathlib import Path

from ragen_bench.console.formats import Grid, markdown, score_grid
from ragen_bench.evaluation.run_table import read_run, summarise

ROOT = Path(__file__).parents[1]
NAMES = {"success %\n[95% CI]": "success, % [95% interval]", "valid\n%": "valid replies, %"}
LEFT_OUT = ("n", "effective\n%", "tokens", "s per\nepisode")


def main(run: Path) -> None:
    """Write the table from a run."""
    grid = score_grid(summarise(read_run(run)))
    for name in LEFT_OUT:
        grid = grid.without(name)
    grid = Grid([NAMES.get(name, name) for name in grid.header], grid.rows, grid.left)
    write(ROOT / "docs" / "scores.md", named_once(grid))


def named_once(grid: Grid) -> Grid:
    """Return the table with each game's name in its first row alone."""
    rows, last = [], None
    for row in grid.rows:
        rows.append(["" if row[0] == last else row[0], *row[1:]])
        last = row[0]
    return Grid(grid.header, rows, grid.left)


def write(path: Path, grid: Grid) -> None:
    """Put a table between the comments of a page."""
    text = path.read_text(encoding="utf-8")
    between = re.compile(r"(<!-- begin: scores -->\n).*?(<!-- end: scores -->)", re.DOTALL)
    written, found = between.subn(lambda m: f"{m[1]}{markdown(grid)}{m[2]}", text)
    assert found == 1, path
    path.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
