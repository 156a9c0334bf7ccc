"""How many claims of all tables and figures have which verdict, for docs/reproduction.md."""

from collections import Counter
from collections.abc import Iterable

from ragen_bench.reproduction.claims import WORDS, over_all
from ragen_bench.reproduction.reproduction_report import Report

_OF = {"RAGEN": "RAGEN", "RAGEN-2": "RAGEN-2", "own": "our own questions"}


def claims_tables(reports: Iterable[Report]) -> str:
    """Return the counts of verdicts by who makes the claims, and those that stay if all are taken at once."""
    rows = [row for report in reports for row in report.claims_data.to_dict("records")]
    decided = [row["verdict"] in ("supported", "contradicted", "smaller") for row in rows]
    by_holm, by_rate = (
        sum(a and b for a, b in zip(decided, each, strict=True))
        for each in over_all([row["p"] for row in rows])
    )
    counts = Counter((row["origin"], row["verdict"]) for row in rows)
    shown = [word for word in WORDS if any(counts[origin, word] for origin in _OF)]
    lines = [f"| claims of | {' | '.join(shown)} |", f"|---|{'--:|' * len(shown)}"]
    for origin, name in _OF.items():
        lines.append(f"| {name} | {' | '.join(str(counts[origin, word]) for word in shown)} |")
    return "\n".join(lines) + (
        f"\n\nOf these {len(rows)} claims, {sum(decided)} are decided. Holm's correction over all at once, "
        f"instead of by table, leaves {by_holm}; a false discovery rate of 5% leaves {by_rate}.\n"
    )
