"""Write the table of scores in docs/scores.md.

    ragen bench --agent random --agent starter --agent oracle --suite core --out RUN
    python docs/write_scores.py RUN

The page names the table ``scores``.
"""

import sys
from pathlib import Path

import pandas as pd
from page_blocks import filled
from ragen_bench.console.formats import Grid, markdown
from ragen_bench.evaluation.run_table import read_run, summarise

PAGE = Path(__file__).with_name("scores.md")
HEADER = [
    "game", "random play, exact", "random", "starter [95% interval]", "oracle", "optimum, exact",
    "score of the starter", "its valid replies, %",
]  # fmt: skip


def main(run: Path) -> None:
    """Write the table from a run."""
    data = summarise(read_run(run))
    grid = Grid(HEADER, [_row(str(name), rows) for name, rows in data.groupby("game", sort=False)], left=1)
    text = filled(PAGE.read_text(encoding="utf-8"), {"scores": markdown(grid)})
    PAGE.write_text(text, encoding="utf-8")


def _row(game: str, rows: pd.DataFrame) -> list[str]:
    """Return the row of a game."""
    agents = rows.set_index("agent")
    starter = agents.loc["starter"]
    low, high = (f"{100 * starter[bound]:.1f}" for bound in ("success_low", "success_high"))
    success = {name: f"{100 * value:.1f}" for name, value in agents["success"].items()}
    random, optimum = (f"{100 * starter[name]:.1f}" for name in ("random_success", "optimal_success"))
    shown = f"{success['starter']} [{low}, {high}]"
    others = [success["oracle"], optimum, f"{starter['score']:.1f}", f"{100 * starter['valid']:.1f}"]
    return [game, random, success["random"], shown, *others]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
