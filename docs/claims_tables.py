"""The claims of all tables and figures with their verdicts, for docs/reproduction.md."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ragen_bench.reproduction.reproduction_config import Origin
from ragen_bench.reproduction.reproduction_report import Report

_SIGNS: Final = {"supported": "✓", "contradicted": "✗", "smaller": "≪", "undecided": "?"}
_TITLES: Final[Mapping[Origin, str]] = {
    "RAGEN": "Claims of RAGEN",
    "RAGEN-2": "Claims of RAGEN-2",
    "own": "Questions of our own",
}
_HEAD: Final = (
    "| claim | paper | ours | verdict | p | seeds |\n| :-- | --: | --: | :-- | --: | --: |\n"
)
_OPEN_HEAD: Final = (
    "| claim | what would decide it | further runs | core hours | `ragen reproduce` |\n"
    "| :-- | :-- | --: | --: | :-- |\n"
)

Row = Mapping[str, Any]


def claims_tables(reports: Iterable[Report]) -> str:
    """Return the claims that were run by who makes them, then the open ones and what would decide them."""
    rows: list[Row] = [
        {**row, "source": report.what.name}
        for report in reports
        for row in report.claims_data.to_dict("records")
    ]
    parts = []
    for origin, title in _TITLES.items():
        own = [row for row in rows if row["origin"] == origin]
        shown = "".join(_line(row) for row in own if row["verdict"] != "not run")
        parts.append(f"### {title}\n\n{_counts(own)}\n\n{_HEAD}{shown}")
    return "\n" + "\n".join([*parts, _open(rows)]) + "\n"


def _counts(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    listed = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return f"Of {len(rows)}: {listed}."


def _line(row: Row) -> str:
    p = f"{row['p_holm']:.2g}" if math.isfinite(row["p_holm"]) else ""
    verdict = f"{_SIGNS[row['verdict']]}&nbsp;{row['verdict']}"
    return (
        f"| {row['claim']} | {row['paper']} | {row['ours']} | {verdict} | {p} | {row['seeds']} |\n"
    )


def _open(rows: Sequence[Row]) -> str:
    """Return the claims without a verdict, what would decide them, and what that costs."""
    parts = [
        f"### {title}\n\n{_OPEN_HEAD}{''.join(map(_open_line, chosen))}"
        for title, word in (("Undecided", "undecided"), ("Not run", "not run"))
        if (chosen := [row for row in rows if row["verdict"] == word])
    ]
    return "\n".join(parts)


def _open_line(row: Row) -> str:
    runs = row["further_runs"] or ""
    hours = f"{row['core_hours']:.1f}" if math.isfinite(row["core_hours"]) else ""
    return f"| {row['claim']} | {row['remedy']} | {runs} | {hours} | {row['source']} |\n"
