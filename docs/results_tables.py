"""What docs/reproduction-tables.md shows of a stored result, without the columns for experts."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragen_bench.console.formats import markdown
from ragen_bench.reproduction.reproduction_report import Report

_SIGNS: Final = {"supported": "✓", "contradicted": "✗", "smaller": "≪"}
_LEFT_OUT: Final = ("design", "score", "p Holm", "verdict", "paper %")
_PREMISES: Final = (
    (r"episodes have fewer .*", "turns"),
    (r"the initial model learned .*", "demonstrations"),
    (r"the baseline has no KL .*", "KL"),
    (r"\S+ was not validated .*", "validation"),
    (r"the gap was there .*", "gain"),
    (r"(\S+) ends (\S+ \[.*?\]) points .*", r"baseline: \1 \2"),
    (r"on (\S+) no cell .*", r"chance on \1"),
    (r"the measure begins at (\S+) .*", r"cap: \1"),
    (r"\S+ leaves room for (\S+) .*", r"room: \1"),
)
"""What ``premises.py`` says does not hold, and how the page names it."""


def results_table(report: Report, picture: str) -> str:
    """Return the verdicts, the drawing, and the paper's table or else the numbers of a stored result.

    Args:
        report: The stored result.
        picture: The path of its drawing from the page, or "" if there is none.
    """
    parts = [_verdicts(report)] if report.verdicts else []
    if picture:
        parts.append(f"![{report.what.title}]({picture})")
    if report.second_table is not None:
        parts += [f"{report.second_table[0]}:", markdown(report.second_table[1]).strip()]
    else:
        numbers = report.table if report.matrix is None else report.matrix[1]
        table = _shortened(markdown(numbers), _LEFT_OUT).replace(", %", "").replace(" / ", "/")
        parts.append(re.sub(r"(\w+) → \1\b", r"\1", table))
    return "\n\n".join(parts) + "\n"


def _verdicts(report: Report) -> str:
    """Return the claims with their verdicts, the seeds that would decide them, and failed premises."""
    head = ("claim", "paper", "ours", "in the gain", "verdict", "p", "seeds")
    rows = [" | ".join(head), " | ".join([":--", *["--:"] * (len(head) - 1)])]
    rows += [" | ".join(_cells(row)) for row in report.claims_data.to_dict("records")]
    return _shortened("\n".join(f"| {row} |" for row in rows)).replace(" points", "")


def _cells(row: Mapping[Any, Any]) -> list[str]:
    claim = row["claim"].removeprefix("RAGEN-2: ").replace(", in episodes of one turn", "")
    verdict = f"{_SIGNS.get(row['verdict'], '')} {row['verdict']}".strip()
    if row["premise"]:
        verdict = "; ".join(dict.fromkeys(map(_premise, row["premise"].split("; "))))
    gain = "" if row["gain"] == row["ours"] else str(row["gain"])
    needed = f" of {row['seeds_needed']}" if row["seeds_needed"] else ""
    p = f"{row['p_holm']:.2g}" if math.isfinite(row["p_holm"]) and not row["premise"] else ""
    seeds = f"{row['seeds'] or ''}{needed}"
    ours = "" if "runs it could" in row["ours"] else row["ours"]
    return [claim[:1].upper() + claim[1:], row["paper"], ours, gain, verdict, p, seeds]


def _premise(text: str) -> str:
    name = next((re.sub(each, short, text) for each, short in _PREMISES if re.match(each, text)), text)
    return f"*{name}*"


def _shortened(table: str, left_out: Sequence[str] = ()) -> str:
    """Return a table without empty columns and those left out."""
    head, *rest = [[c.strip() for c in line[1:-1].split("|")] for line in table.strip().splitlines()]
    kept = [
        k
        for k, name in enumerate(head)
        if k == 0 or (name not in left_out and any(row[k] for row in rest[1:]))
    ]
    return "\n".join(f"| {' | '.join(row[k] for k in kept)} |" for row in [head, *rest])
