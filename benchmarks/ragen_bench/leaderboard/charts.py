"""Lay out the drawings of the pages."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ragen_agents.policies import CONTROLS
from ragen_bench.evaluation.run_table import REFERENCE
from ragen_bench.leaderboard.entry import Training
from ragen_bench.leaderboard.standings import LengthRow, Standing

WIDTH: Final = 640
HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 20, 28, 40
_LABEL: Final = 27.0
"""Height of a title beside its point, as on a phone, whose letters are larger."""
_GAP: Final = 14
"""Between a point and its title."""
MOST: Final = 8
"""Most entries that a drawing names: the best."""
_STEP: Final = 5.0
"""Between the bars of two entries."""


class Tick(NamedTuple):
    """A mark of an axis."""

    place: float
    label: str


class Plot(NamedTuple):
    """A drawing: its axes and what is in it."""

    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    points: list[dict[str, Any]]
    """Each with its place; the best with ``label_x`` and ``label``, where its title stands."""
    lines: list[dict[str, Any]]


def _across(share: float) -> float:
    return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)


def _up(share: float) -> float:
    return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def tokens_plot(rows: Sequence[Standing]) -> Plot | None:
    """Return score against tokens, or None if no entry has tokens."""
    shown = [row for row in rows if row.row["reply_tokens"] > 0 and math.isfinite(row.row["score"])]
    if not shown:
        return None
    scores = [row.row["score"] for row in shown]
    low, high = 20 * math.floor(min(0.0, *scores) / 20), 20 * math.ceil(max(100.0, *scores) / 20)
    logs = [math.log10(row.row["reply_tokens"]) for row in shown]
    values = _round_values(min(logs), max(logs))
    first, last = math.log10(values[0]), math.log10(values[-1])
    y_ticks = [Tick(_up((value - low) / (high - low)), f"{value}") for value in range(low, high + 1, 20)]
    points = [
        {
            "name": row.name,
            "title": row.title,
            "x": _across((log - first) / (last - first)),
            "y": _up((row.row["score"] - low) / (high - low)),
            "tokens": row.row["reply_tokens"],
            "score": row.row["score"],
        }
        for row, log in zip(shown, logs, strict=True)
    ]
    best = sorted(points, key=lambda point: -point["score"])[:MOST]
    _place_labels(best)
    x_ticks = [Tick(_across((math.log10(value) - first) / (last - first)), f"{value:,}") for value in values]
    lines = [
        {"title": title, "y": _up((value - low) / (high - low))}
        for title, value in (("random", 0), ("optimum", 100))
    ]
    return Plot("tokens an episode", "score", x_ticks, y_ticks, points, lines)


def _place_labels(points: list[dict[str, Any]]) -> None:
    """Place the title of each point, on which there is no other title and no other point."""
    for left in (True, False):
        side = [point for point in points if (point["x"] < WIDTH / 2) is left]
        side.sort(key=lambda p: p["y"])
        above = -math.inf
        for point in side:
            above = point["label"] = max(point["y"], above + _LABEL)
        below = HEIGHT - _BOTTOM + _LABEL
        for point in reversed(side):
            below = point["label"] = min(point["label"], below - _LABEL)
        for point in side:
            near = [p["x"] for p in side if abs(p["y"] - point["label"]) < _LABEL] + [point["x"]]
            point["label_x"] = max(near) + _GAP if left else min(near) - _GAP


def _round_values(low: float, high: float) -> list[int]:
    """Return 1, 2, 5, 10, 20, ... from the last at or below 10^low to the first above 10^high."""
    series = [factor * 10**k for k in range(math.floor(low), math.floor(high) + 2) for factor in (1, 2, 5)]
    first = max(k for k, value in enumerate(series) if value <= 10**low * (1 + 1e-9))
    last = min(k for k, value in enumerate(series) if value > 10**high * (1 + 1e-9))
    return series[first : last + 1]


def lengths_plot(rows: Sequence[LengthRow], titles: dict[str, str], ranked: Sequence[str]) -> Plot | None:
    """Return success by solution length, or None without any."""
    shown = {REFERENCE, *[name for name in ranked if name not in CONTROLS][:MOST]}
    rows = [row for row in rows if row.name in shown]
    if not rows:
        return None
    lengths = sorted({row.length for row in rows})
    first, last = lengths[0] - 0.5, lengths[-1] + 0.5
    x_ticks = [Tick(_across((k - first) / (last - first)), str(k)) for k in lengths]
    y_ticks = [Tick(_up(value / 100), str(value)) for value in range(0, 101, 20)]
    lines = []
    names = list(dict.fromkeys(row.name for row in rows))
    room = (_across(1) - _across(0)) / (last - first)
    for place, name in enumerate(names):
        aside = min(_STEP, room / (len(names) + 1)) * (place - (len(names) - 1) / 2)
        points = [
            {
                "x": round(_across((row.length - first) / (last - first)) + aside, 1),
                "y": _up(row.success.estimate),
                "low": _up(row.success.low),
                "high": _up(row.success.high),
                "n": row.n,
                "length": row.length,
                "success": row.success.estimate,
            }
            for row in rows
            if row.name == name
        ]
        lines.append({"name": name, "title": titles[name], "points": points})
    return Plot("actions of the shortest solution", "success, %", x_ticks, y_ticks, [], lines)


def training_plot(training: Training) -> Plot:
    """Return success by iteration: of the training episodes, and on the validation levels."""
    curves = (
        ("training episodes", list(enumerate(training.success, start=1))),
        ("validation levels", [(each.iteration, each.success) for each in training.validation]),
    )
    last = max(k for _, points in curves for k, _ in points)
    step = _round_step(last)
    lines = [
        {
            "title": title,
            "points": [
                {"x": _across(k / last), "y": _up(share), "iteration": k, "success": share}
                for k, share in points
            ],
        }
        for title, points in curves
        if points
    ]
    x_ticks = [Tick(_across(k / last), str(k)) for k in range(0, last + 1, step)]
    y_ticks = [Tick(_up(value / 100), str(value)) for value in range(0, 101, 20)]
    return Plot("iteration", "success, %", x_ticks, y_ticks, [], lines)


def _round_step(last: int) -> int:
    """Return the least of 1, 2, 5, 10, 20, ... that takes at most ten steps."""
    step = 1
    while last > 10 * step:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step
