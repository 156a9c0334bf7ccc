"""The claims of all tables and figures with their verdicts, for docs/reproduction.md."""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ragen_bench.reproduction.reproduction_config import (
    Origin,
    Reproduction,
    bundled_reproductions,
    load_reproduction,
)

from ragen_envs import SUITE_VERSION

_SIGNS: Final = {"supported": "✓", "contradicted": "✗", "smaller": "≪", "undecided": "?"}
_TITLES: Final[Mapping[Origin, str]] = {
    "RAGEN": "Claims of RAGEN",
    "RAGEN-2": "Claims of RAGEN-2",
    "own": "Questions of our own",
}
_NOT_RUN: Final = "not run"
_HEAD: Final = (
    "| claim | paper | ours | verdict | p | seeds |\n| :-- | --: | --: | :-- | --: | --: |\n"
)

Row = Mapping[str, str]


def claims_tables(results: Path) -> str:
    """Return the claims that were run on the present suite version by who makes them, then the others.

    Args:
        results: The folder of results of a scale.
    """
    rows = [
        row for name in bundled_reproductions() for row in _rows(load_reproduction(name), results)
    ]
    parts = []
    for origin, title in _TITLES.items():
        own = [row for row in rows if row["origin"] == origin]
        shown = "".join(_line(row) for row in own if row["verdict"] != _NOT_RUN)
        parts.append(f"### {title}\n\n{_counts(own)}\n\n{_HEAD}{shown}")
    return "\n" + "\n".join([*parts, _open(rows)]) + "\n"


def _rows(what: Reproduction, results: Path) -> Iterator[Row]:
    path = results / f"{what.name}-claims.csv"
    if path.exists() and _suite_version(results / f"{what.sweep}.jsonl") == SUITE_VERSION:
        with path.open(encoding="utf-8", newline="") as file:
            yield from ({**row, "source": what.name} for row in csv.DictReader(file))
        return
    for claim in what.claims:
        yield {
            "claim": claim.text, "origin": claim.origin, "verdict": _NOT_RUN,
            "remedy": "runs of all cells", "source": what.name,
        }  # fmt: skip


def _suite_version(archive: Path) -> int:
    """Return the newest suite version of which a sweep has kept trained runs."""
    tasks = [json.loads(line)["task"] for line in archive.read_text(encoding="utf-8").splitlines()]
    return max((task["suite_version"] for task in tasks if task["seed"] is not None), default=0)


def _counts(rows: Sequence[Row]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    return f"Of {len(rows)}: {told}."


def _line(row: Row) -> str:
    p = f"{float(row['p_holm']):.2g}" if row["p_holm"] else ""
    verdict = f"{_SIGNS[row['verdict']]} {row['verdict']}".replace(" ", "&nbsp;")
    return (
        f"| {row['claim']} | {row['paper']} | {row['ours']} | {verdict} | {p} | {row['seeds']} |\n"
    )


def _open(rows: Sequence[Row]) -> str:
    """Return the claims without a verdict, and what would decide them."""
    parts = [
        _head(title) + "".join(f"| {r['claim']} | {r['remedy']} | {r['source']} |\n" for r in found)
        for title, word in (("Undecided", "undecided"), ("Not run", _NOT_RUN))
        if (found := [row for row in rows if row["verdict"] == word])
    ]
    return "\n".join(parts)


def _head(title: str) -> str:
    return f"### {title}\n\n| claim | what would decide it | `ragen reproduce` |\n| :-- | :-- | :-- |\n"
