"""The claims, verdicts and drawing of a stored result in docs/reproduction-tables.md."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from ragen_bench.console.formats import markdown
from ragen_bench.reproduction.reproduction_report import Report

_SIGNS: Final = {"supported": "✓", "contradicted": "✗", "smaller": "≪"}
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
    """Return the verdicts, the drawing, and what only this stored result has besides.

    Args:
        report: The stored result.
        picture: The path of its drawing from the page, or "" if there is none.
    """
    parts = _verdicts(report)
    if picture:
        parts.append(f"![{report.what.title}]({picture})")
    if report.second_table is not None:
        parts += [f"{report.second_table[0]}:", markdown(report.second_table[1]).strip()]
    return "\n\n".join(parts) + "\n"


def _verdicts(report: Report) -> list[str]:
    """Return the table of the claims that can be judged, and lists of the others by what does not hold."""
    rows = report.claims_data.to_dict("records")
    parts = []
    if judged := [_cells(row) for row in rows if not row["premise"]]:
        head = ("claim", "paper", "ours", "verdict", "p", "seeds")
        kept = [k for k in range(len(head)) if k == 0 or any(cells[k] for cells in judged)]
        lines = [head, [":--", *["--:"] * (len(head) - 1)], *judged]
        parts.append("\n".join(f"| {' | '.join(line[k] for k in kept)} |" for line in lines))
    others: dict[str, list[str]] = {}
    for row in rows:
        if row["premise"]:
            failed = ", ".join(dict.fromkeys(map(_premise, row["premise"].split("; "))))
            others.setdefault(failed, []).append(_sizes(row))
    parts += [f"Cannot tell ({failed}): {'; '.join(claims)}." for failed, claims in others.items()]
    return parts


def _cells(row: Mapping[Any, Any]) -> list[str]:
    verdict = f"{_SIGNS.get(row['verdict'], '')} {row['verdict']}".strip()
    needed = f" of {row['seeds_needed']}" if row["seeds_needed"] else ""
    p = f"{row['p_holm']:.2g}" if math.isfinite(row["p_holm"]) else ""
    sizes = [_size(row["paper"]), _size(row["ours"])]
    return [_claim(row), *sizes, verdict, p, f"{row['seeds'] or ''}{needed}".strip()]


def _sizes(row: Mapping[Any, Any]) -> str:
    """Return a claim with the sizes of its effect in the paper and here, without intervals."""
    sizes = [f"paper {_size(row['paper'])}"] if row["paper"] else []
    if ours := _size(row["ours"]).partition(" [")[0]:
        sizes.append(f"ours {ours}")
    return _claim(row) + (f" ({', '.join(sizes)})" if sizes else "")


def _claim(row: Mapping[Any, Any]) -> str:
    claim: str = row["claim"].removeprefix("RAGEN-2: ").replace(", in episodes of one turn", "")
    return claim[:1].upper() + claim[1:]


def _size(text: str) -> str:
    return "" if "runs it could" in text else text.replace(" points", "")


def _premise(text: str) -> str:
    name = next((re.sub(each, short, text) for each, short in _PREMISES if re.match(each, text)), text)
    return f"*{name}*"
