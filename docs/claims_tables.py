"""The claims of all tables and figures with their verdicts, for docs/reproduction.md."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ragen_bench.reproduction.claims import over_all
from ragen_bench.reproduction.reproduction_config import Origin
from ragen_bench.reproduction.reproduction_report import Report

_SIGNS: Final = {
    "supported": "✓", "contradicted": "✗", "smaller": "≪", "undecided": "?", "cannot tell": "–",
    "not run": "",
}  # fmt: skip
_TITLES: Final[Mapping[Origin, str]] = {
    "RAGEN": "Claims of RAGEN",
    "RAGEN-2": "Claims of RAGEN-2",
    "own": "Questions of our own",
}
_HEAD: Final = (
    "| claim | where | paper | ours | in the gain | verdict | p | seeds |\n"
    "| :-- | :-- | --: | --: | --: | :-- | --: | --: |\n"
)
_PREMISES_HEAD: Final = (
    "| claim | where | paper | ours | in the gain | what does not hold |\n"
    "| :-- | :-- | --: | --: | --: | :-- |\n"
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
    parts = [_at_once(rows)]
    for origin, title in _TITLES.items():
        own = [row for row in rows if row["origin"] == origin]
        shown = [row for row in own if row["verdict"] not in ("not run", "cannot tell")]
        parts.append(f"### {title}\n\n{_counts(own)}\n")
        if shown:
            parts.append(_HEAD + "".join(map(_line, shown)))
    untold = [row for row in rows if row["verdict"] == "cannot tell"]
    lines = "".join(map(_untold_line, untold))
    parts.append(f"### Cannot tell here\n\n{_PREMISES_HEAD}{lines}")
    return "\n" + "\n".join([*parts, _open(rows)]) + "\n"


def _at_once(rows: Sequence[Row]) -> str:
    decided = [row["verdict"] in ("supported", "contradicted", "smaller") for row in rows]
    holm, rate = over_all([row["p"] for row in rows])
    by_holm, by_rate = (
        sum(a and b for a, b in zip(decided, each, strict=True)) for each in (holm, rate)
    )
    untold = sum(row["verdict"] == "cannot tell" for row in rows)
    return (
        f"Of {len(rows)} claims, {sum(decided)} are decided, and on {untold} nothing can be told here. "
        f"If all are taken at once, instead of table by table, {by_holm} stay decided by Holm, "
        f"and {by_rate} at 5% false discoveries.\n"
    )


def _counts(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    listed = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return f"Of {len(rows)}: {listed}."


def _line(row: Row) -> str:
    p = f"{row['p_holm']:.2g}" if math.isfinite(row["p_holm"]) else ""
    verdict = f"{_SIGNS[row['verdict']]}&nbsp;{row['verdict']}"
    return f"| {_stated(row)} | {verdict} | {p} | {row['seeds']} |\n"


def _untold_line(row: Row) -> str:
    return f"| {_stated(row)} | {row['premise']} |\n"


def _stated(row: Row) -> str:
    return " | ".join([row["claim"], row["where"], row["paper"], row["ours"], _gain(row)])


def _gain(row: Row) -> str:
    """Return the difference of the gains; "same" where both began as the same model."""
    return "same" if row["gain"] and row["gain"] == row["ours"] else str(row["gain"])


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
