"""Drawings of the leaderboard with more entries than they can name."""

import itertools

from ragen_bench.leaderboard.charts import MOST, lengths_plot, tokens_plot
from ragen_bench.leaderboard.standings import LengthRow, Standing
from ragen_bench.stats.intervals import Interval


def test_a_drawing_of_one_entry_with_a_round_number_of_tokens():
    score = Standing("agent", "Agent", False, 1, False, {"reply_tokens": 50.0, "score": 1.0})
    plot = tokens_plot([score])
    assert [tick.label for tick in plot.x_ticks] == ["50", "100"]


def test_drawings_name_the_best_of_many():
    names = [f"agent-{number:02}" for number in range(20)]
    titles = {name: name.title() for name in (*names, "random")}
    half = Interval(0.5, 0.4, 0.6)
    rows = [LengthRow(name, length, 9, half) for name in titles for length in (1, 2)]
    plot = lengths_plot(rows, titles, names)
    assert [line["name"] for line in plot.lines] == [*names[:MOST], "random"]
    bars = sorted(line["points"][0]["x"] for line in plot.lines)
    assert all(b - a >= 4.9 for a, b in itertools.pairwise(bars))
    scores = [
        Standing(name, titles[name], False, k, False, {"reply_tokens": 10.0 + k, "score": -float(k)})
        for k, name in enumerate(names)
    ]
    named = [point for point in tokens_plot(scores).points if "label" in point]
    assert [point["name"] for point in named] == names[:MOST]
    for side in ([p for p in named if p["x"] < 320], [p for p in named if p["x"] >= 320]):
        places = sorted(point["label"] for point in side)
        assert all(b - a >= 24 for a, b in itertools.pairwise(places))
        assert all(28 <= place <= 260 for place in places)
