"""Write what pages show of stored results: decided claims, tables, drawings, and the leaderboard."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragen_bench.console.formats import markdown
from ragen_bench.reproduction.reproduction_report import Report

_SIGNS: Final = {"supported": "✓", "contradicted": "✗", "smaller": "≪"}
"""The verdicts that decide a claim."""


def decided_table(reports: Iterable[Report]) -> str:
    """Return the claims with a verdict, of all stored results."""
    rows = [row for report in reports for row in report.claims_data.to_dict("records")]
    lines = [
        "| claim | of | paper | ours | on validation | verdict | p | seeds |",
        "|---|---|--:|--:|--:|---|--:|--:|",
    ]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows if row["verdict"] in _SIGNS]
    return "\n".join(lines) + "\n"


def entries_table(folder: Path) -> str:
    """Return the success of each entry of a leaderboard on each game, in percent, the best mean first."""
    entries = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/entry.json")]
    rows = [(e["about"]["title"], [game["success"] for game in e["results"].values()]) for e in entries]
    rows.sort(key=lambda row: (-fmean(row[1]), row[0]))
    header = ["success, %", *entries[0]["results"]]
    lines = [[title, *(f"{100 * success:.1f}" for success in successes)] for title, successes in rows]
    rule = ["---", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines])


def tables(report: Report, picture: str) -> str:
    """Return the paper's table beside ours and the drawing of a stored result."""
    parts = [f"![{report.exhibit.title}]({picture})"]
    if report.matrix is not None:
        table = markdown(report.matrix[1]).strip().replace(", %", "")
        parts.insert(0, _short_head(re.sub(r"(\w+) → \1\b", r"\1", table)))
    return "\n\n".join(parts) + "\n"


def _short_head(table: str) -> str:
    """Return a table whose head names the game of training, and each game of tests, once."""
    head, aligned, rest = table.split("\n", 2)
    head = re.sub(r"(paper) \| [^|]+ ours", r"\1 | ours", re.sub(r"\| \w+ → ", "| → ", head))
    return f"{head}\n{aligned.replace(' ', '')}\n{rest}"


def _cells(row: Mapping[Any, Any]) -> list[str]:
    sizes = [row[who].replace(" points", "") for who in ("paper", "ours", "validation")]
    verdict = f"{_SIGNS[row['verdict']]} {row['verdict']}"
    return [row["claim"], row["origin"], *sizes, verdict, f"{row['p_holm']:.2g}", str(row["seeds"])]
