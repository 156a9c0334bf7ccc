"""What docs/reproduction-tables.md shows of a stored result, without the columns for experts."""

from collections.abc import Iterator

from ragen_bench.console.formats import markdown
from ragen_bench.reproduction.reproduction_report import Report

_ALT = "Curves of training"
LEFT_OUT = ("design", "score", "p Holm", "verdict")
ONCE = ("trained on → test", "random / initial / optimum %", "random / initial / oracle %")
"""Columns whose value is left out where it is that of the row above; the last is of suite version 1."""


def results_table(report: Report, picture: str) -> str:
    """Return the paper's table, the verdicts, the drawing, the numbers and the notes of a stored result.

    Args:
        report: The stored result.
        picture: The path of its drawing from the page, or "" if there is none.
    """
    if not report.table.rows:
        return "Not run yet.\n"
    parts = [] if report.matrix is None else [f"{report.matrix[0]}:", markdown(report.matrix[1])]
    if report.verdicts:
        claims = report.claims
        for name in ("p Holm", "core hours"):
            claims = claims.without(name)
        parts.append(markdown(claims))
    if picture:
        parts += [f"![{_ALT}: {report.what.title}]({picture})", report.caption]
    parts.append(_shortened(markdown(report.table).strip()))
    if report.second_table is not None:
        parts += [f"{report.second_table[0]}:", markdown(report.second_table[1])]
    about = ("unfinished: ", ": the same runs as ")
    notes = [note for note in report.notes() if not any(text in note for text in about)]
    parts.append("".join(f"{note[0].upper()}{note[1:]}.\n" for note in notes))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _shortened(table: str) -> str:
    head, align, *rows = [[c.strip() for c in line[1:-1].split("|")] for line in table.splitlines()]
    kept = [
        k for k, name in enumerate(head) if name not in LEFT_OUT and any(row[k] for row in rows)
    ]
    lines = [[row[k] for k in kept] for row in [head, align, *_named_once(head, rows)]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _named_once(head: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    above = [""] * len(head)
    for row in rows:
        same = row[0] == above[0]
        yield [
            "" if same and name in ONCE and cell == over else cell
            for name, cell, over in zip(head, row, above, strict=True)
        ]
        above = row
