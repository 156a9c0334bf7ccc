"""What docs/reproduction-tables.md shows of a stored result: its table without the columns for experts."""

from collections.abc import Iterator

LEFT_OUT = ("design", "score", "p Holm")
ONCE = ("trained on → test", "random / initial / optimum %", "random / initial / oracle %")
"""Columns whose value is left out where it is that of the row above; the last is of suite version 1."""


def results_table(stored: str, picture: str) -> str:
    """Return the tables, the notes and the drawing of a stored result; its claims are on another page.

    Args:
        stored: Its Markdown, as ``ragen reproduce`` writes it.
        picture: The path of its drawing from the page, or "" if there are none.
    """
    parts = stored.split("\n\n")
    kept = [part for part in parts[1:] if not part.startswith("| claim |")]
    if any(part.startswith("| trained on") and part.count("\n") == 1 for part in kept):
        return "Not run yet.\n"
    shown = [
        _shortened(part) if part.startswith("| trained on → test |") else part for part in kept
    ]
    shown = [part for part in (_without_runs(part) for part in shown) if part]
    phases = any(part.startswith("| method |") for part in shown)
    drawn = "Where training collapses" if phases else "The curves of training"
    drawing = [f"![{drawn}]({picture})"] if picture else []
    return "\n\n".join(part.strip() for part in [*shown, *drawing]) + "\n"


def _without_runs(part: str) -> str:
    """Return the notes below a table, without those about tasks that are missing or shared."""
    about = ("Unfinished: ", ": the same runs as ")
    return "\n".join(line for line in part.splitlines() if not any(text in line for text in about))


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
