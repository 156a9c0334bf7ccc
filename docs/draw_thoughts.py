"""Draw docs/images/thoughts.svg from what ``ragen explain RUN --thoughts --format json`` prints."""

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

SHOWN = {
    "player": "place player", "box": "place box", "target": "place target",
    '"Solved"': "ends", "answer =\nplan": "plan",
}  # fmt: skip


def main() -> None:
    """Read the table from standard input and write the picture."""
    rows = {row["agent"]: row for row in json.load(sys.stdin)["rows"]}
    mpl.rcParams["svg.hashsalt"] = "ragen"
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    kinds, moves = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, (agent, row) in enumerate(rows.items()):
        values = [[row[f"{name}{end}"] for end in ("", "_low", "_high")] for name in SHOWN.values()]
        places = [place + 0.38 * number for place in range(len(SHOWN))]
        bounds = [
            [100 * (v - low) for v, low, _ in values],
            [100 * (high - v) for v, _, high in values],
        ]
        kinds.bar(places, [100 * v for v, _, _ in values], 0.36, yerr=bounds, label=agent, capsize=2)
        steps = [f"move_{n}" for n in range(1, 6)]
        errors = [
            [100 * (row[n] - row[f"{n}_low"]) for n in steps],
            [100 * (row[f"{n}_high"] - row[n]) for n in steps],
        ]
        moves.errorbar(range(1, 6), [100 * row[n] for n in steps], errors, marker="o", capsize=2, label=agent)
    kinds.set_xticks([place + 0.19 for place in range(len(SHOWN))], list(SHOWN), fontsize=8)
    kinds.set_title("what thoughts say", fontsize=9)
    moves.set_title("outcome of each move of the plan", fontsize=9)
    moves.set_xticks(range(1, 6))
    for axes in (kinds, moves):
        axes.set_ylim(0, 105)
        axes.set_ylabel("true, %", fontsize=8)
    moves.legend(fontsize=8)
    figure.savefig(Path(__file__).parent / "images" / "thoughts.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
