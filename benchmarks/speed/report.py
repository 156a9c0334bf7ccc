"""Write the tables of measurements, and that of goals, from the measurements of one run.

``python benchmarks/speed/report.py docs/performance.md docs/maintainers/performance.md test_*.json``
"""

import json
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from goals import GOALS, Goal
from limits import LIMIT_OF, LIMITS
from page_blocks import filled

PACKAGES = ("gymnasium", "numpy", "numba", "envpool", "jumanji", "jax", "gym-sokoban", "pufferlib")
OURS, BOUND = "ours", "bound"
SECTIONS = ("One env", "Many envs", "New levels")
"""The page for users shows these; that for maintainers has goals of others, too."""
DISTRIBUTIONS = ("New levels",)
"""Sections with a heavy tail, which need a mean and a 99th percentile instead of a median."""


class Cell(NamedTuple):
    """One measurement, in seconds an item."""

    who: str
    seconds: float
    """Median, or the mean in ``DISTRIBUTIONS``."""
    high: float | None
    """The 99th percentile where items were timed one by one, at least 100 of them."""
    note: str


Row = dict[str, list[Cell]]
"""Cells by who did the work."""


def read(paths: Sequence[Path]) -> tuple[dict[str, Any], dict[str, dict[str, Row]]]:
    """Return the machine, and the rows of each section by name."""
    documents = [json.loads(path.read_text("utf-8")) for path in paths]
    sections: dict[str, dict[str, Row]] = {}
    for benchmark in chain.from_iterable(document["benchmarks"] for document in documents):
        info, times = benchmark["extra_info"], benchmark["stats"]["data"]
        items = info["items"]
        heavy = info["section"] in DISTRIBUTIONS
        value = fmean(times) if heavy else benchmark["stats"]["median"]
        high = sorted(times)[-1 - len(times) // 100] if heavy and len(times) >= 100 else None
        row = sections.setdefault(info["section"], {}).setdefault(info["row"], {})
        row.setdefault(info["who"], []).append(Cell(info["who"], value / items, high, info["note"]))
    return documents[0]["machine_info"], sections


def show(seconds: float) -> str:
    """Return a time with its unit, three digits."""
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def show_ratio(ratio: float) -> str:
    """Return how many times slower a peer is; below 1 it is faster."""
    return f"{ratio:.0f}×" if ratio >= 9.5 else f"{ratio:.2g}×"


def _cell(cell: Cell) -> str:
    high = "" if cell.high is None else f", p99 {show(cell.high)}"
    return f"{show(cell.seconds)}{high}{f' ({cell.note})' if cell.note else ''}"


def _peers(row: Row) -> Iterator[str]:
    ours = row.get(OURS, [None])[0]
    for who, cells in row.items():
        if who in (OURS, BOUND):
            continue
        for cell in cells:
            ratio = "" if ours is None else f", **{show_ratio(cell.seconds / ours.seconds)}**"
            yield f"{who} {_cell(cell)}{ratio}"


def tables(sections: dict[str, dict[str, Row]]) -> Iterator[str]:
    """Yield a heading and a table for each section."""
    for section in SECTIONS:
        rows = sections.get(section, {})
        limit = sections.get(LIMITS, {}).get(LIMIT_OF.get(section, ""), {}).get(OURS, [])
        bounded = bool(limit) or any(BOUND in row for row in rows.values())
        compared = any(set(row) - {OURS, BOUND} for row in rows.values())
        yield f"### {section}\n"
        peers, header = " peers, and how many times ours |" * compared, " limit, % |" * bounded
        yield f"| | ours |{peers}{header}"
        yield f"|---|---|{'---|' * compared}{'--:|' * bounded}"
        for name, row in rows.items():
            if name.endswith((" env", " envs")) and "1,024" not in name and set(row) <= {OURS, BOUND}:
                continue  # of sizes without a peer, one is enough
            ours = "<br>".join(_cell(cell) for cell in row.get(OURS, []))
            theirs = f" {'<br>'.join(_peers(row))} |" if compared else ""
            bound = f" {_bound(row.get(BOUND, limit), row)} |" if bounded else ""
            yield f"| {name} | {ours} |{theirs}{bound}"
        yield ""


def _bound(limit: list[Cell], row: Row) -> str:
    ours = row.get(OURS, [])
    if not limit or not ours:
        return ""
    return f"{100 * limit[0].seconds / ours[0].seconds:.0f}"


def verdict(goal: Goal, rows: dict[str, Row]) -> str:
    """Return a row of the table of goals; ``rows`` are those of the goal's section."""
    ours = _seconds(rows.get(goal.row, {}), OURS, goal.note if goal.peer is None else "")
    name = f"{goal.section}: {goal.row}"
    if goal.peer is not None:
        theirs = _seconds(rows.get(goal.row, {}), goal.peer, goal.note)
        ratio = None if ours is None or theirs is None else theirs / ours
        against = f"{goal.peer} {goal.note}".rstrip()
        shown = "–" if ratio is None else show_ratio(ratio)
        met = ratio is not None and ratio >= goal.target
        return f"| {name} | ≥ {goal.target:g}× {against} | {shown} | {_word(ratio, met)} |"
    met = ours is not None and ours <= goal.target
    return f"| {name} | ≤ {show(goal.target)} | {'–' if ours is None else show(ours)} | {_word(ours, met)} |"


def _seconds(row: Row, who: str, note: str = "") -> float | None:
    return next((cell.seconds for cell in row.get(who, []) if note in cell.note), None)


def _word(value: float | None, met: bool) -> str:
    return "not measured" if value is None else "met" if met else "**not met**"


def measurements(machine: dict[str, Any], sections: dict[str, dict[str, Row]]) -> str:
    """Return the table of the page for users."""
    cpu = machine["cpu"]
    lines = [
        f"One core of {cpu['count']} ({cpu['brand_raw']}), {machine['system']}, "
        f"Python {machine['python_version']}, {', '.join(_versions())}.",
        "",
        *tables(sections),
    ]
    return "\n".join(lines).rstrip()


def goals(sections: dict[str, dict[str, Row]]) -> str:
    """Return the table of the page for maintainers: the goals that are not met."""
    verdicts = [verdict(goal, sections.get(goal.section, {})) for goal in GOALS]
    missed = [line for line in verdicts if not line.endswith("| met |")]
    count = f"{len(verdicts) - len(missed)} of {len(verdicts)} goals are met. The others:"
    return "\n".join([count, "", "| | goal | reached | |", "|---|---|---|---|", *missed])


def _versions() -> Iterator[str]:
    for package in PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            yield f"{package} not installed"


def main() -> None:
    """Write both pages."""
    page, goals_page, *measured = map(Path, sys.argv[1:])
    machine, sections = read(measured)
    for target, name, body in (
        (page, "measurements", measurements(machine, sections)),
        (goals_page, "goals", goals(sections)),
    ):
        target.write_text(filled(target.read_text("utf-8"), {name: body}), "utf-8")


if __name__ == "__main__":
    main()
