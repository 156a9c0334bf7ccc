"""The claims of all tables and figures with their verdicts, for docs/reproduction.md."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ragen_bench.reproduction.reproduction_config import Origin, bundled_reproductions

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

Row = Mapping[str, str]


def claims_tables(results: Path) -> str:
    """Return the claims that were run by who makes them, then those that are open and what would decide them.

    Args:
        results: The folder of results of a scale.
    """
    rows = [row for name in bundled_reproductions() for row in _rows(name, results)]
    parts = []
    for origin, title in _TITLES.items():
        own = [row for row in rows if row["origin"] == origin]
        shown = "".join(_line(row) for row in own if row["verdict"] != "not run")
        parts.append(f"### {title}\n\n{_counts(own)}\n\n{_HEAD}{shown}")
    return "\n" + "\n".join([*parts, _open(rows)]) + "\n"


def _rows(name: str, results: Path) -> Iterator[Row]:
    with (results / f"{name}-claims.csv").open(encoding="utf-8", newline="") as file:
        yield from ({**row, "source": name} for row in csv.DictReader(file))


def _counts(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return f"Of {len(rows)}: {told}."


def _line(row: Row) -> str:
    p = f"{float(row['p_holm']):.2g}" if row["p_holm"] else ""
    verdict = f"{_SIGNS[row['verdict']]}&nbsp;{row['verdict']}"
    return (
        f"| {row['claim']} | {row['paper']} | {row['ours']} | {verdict} | {p} | {row['seeds']} |\n"
    )


def _open(rows: Sequence[Row]) -> str:
    """Return the claims without a verdict, what would decide them, and what that costs."""
    parts = [
        f"### {title}\n\n{_OPEN_HEAD}{''.join(map(_open_line, found))}"
        for title, word in (("Undecided", "undecided"), ("Not run", "not run"))
        if (found := [row for row in rows if row["verdict"] == word])
    ]
    return "\n".join(parts)


def _open_line(row: Row) -> str:
    runs = row["further_runs"] if row["further_runs"] != "0" else ""
    hours = f"{float(row['core_hours']):.1f}" if row["core_hours"] else ""
    return f"| {row['claim']} | {row['remedy']} | {runs} | {hours} | {row['source']} |\n"
