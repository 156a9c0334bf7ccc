"""``ragen power``: how many seeds and levels it takes to detect a difference."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragen_bench.cli.options import FormatOption
from ragen_bench.console.formats import Format, Grid, print_table

if TYPE_CHECKING:
    import pandas as pd

    from ragen_bench.stats.power import Design


_NONE: Final = "-"
_ONCE: Final = (
    "for two fixed models that play each level once; repeating levels helps less than adding levels, and not "
    "at all with greedy decoding"
)


def power(
    effect: Annotated[
        str, typer.Option(help="Difference of two success rates, such as 3pp (percentage points).")
    ] = "5pp",
    rate: Annotated[
        float,
        typer.Option(min=0.001, max=0.999, metavar="P", help="Success rate of the worse setting."),
    ] = 0.2,
    seed_sd: Annotated[
        str, typer.Option(help="Standard deviation of the success rate over training seeds.")
    ] = "3pp",
    correlation: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.99,
            metavar="R",
            help="Correlation of two runs' outcomes on the same level.",
        ),
    ] = 0.3,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="Plan the levels of ragen sweep SWEEP: points of one model, with Holm's correction.",
        ),
    ] = None,
    style: FormatOption = Format.TABLE,
) -> None:
    """Show how many seeds and levels detect a difference between two settings with 80% power.

    The test is two-sided at 5%; levels are paired, seeds are not. With --seed-sd 0pp it
    compares two fixed models.
    """
    from ragen_bench.stats.power import MOST_SEEDS, Design, plan_designs, plan_levels

    difference = _points(effect, "--effect")
    spread = _points(seed_sd, "--seed-sd") if sweep is None else 0.0
    base = Design(2, 2, rate, spread, correlation)
    title = f"{effect} at a rate of {rate:g}, correlation {correlation:g}"
    if not spread:
        alpha, notes = (0.05, [_ONCE]) if sweep is None else _of_sweep(sweep, effect, base)
        data = plan_levels(difference, base, alpha)
        print_table(data, _grid_of_levels(data, effect), style, title, notes)
        return
    data = plan_designs(difference, base)
    grid = _grid(data)
    notes = []
    if any(_NONE in row for row in grid.rows):
        notes.append(f"{_NONE}: more than {MOST_SEEDS} seeds, or an impossible difference")
    print_table(data, grid, style, f"{title}, seeds differ by {seed_sd}", notes)


def _of_sweep(name: str, effect: str, design: "Design") -> tuple[float, list[str]]:
    """Return the level of the test of one comparison of a sweep, and notes on how many levels it takes."""
    from ragen_bench.stats.paired import ALPHA
    from ragen_bench.stats.power import levels_for
    from ragen_bench.sweeps.sweep import load_sweep

    sweep = load_sweep(name)
    alpha = ALPHA / sweep.comparisons
    needed = levels_for(_points(effect, "--effect"), design, alpha)
    points = len(sweep.suite(sweep.games[:1], 1, 0).tasks)
    return alpha, [
        f"{f'{needed} levels find' if needed else 'no number of levels finds'} {effect} between a point and "
        f"its reference with 80% power, after Holm's correction for {sweep.comparisons} comparisons along an "
        "axis (--episodes)",
        f"{points} points, attempts at each level: {sweep.attempts}; {points * sweep.attempts} episodes of "
        "each level per game and agent",
    ]


def _points(text: str, what: str) -> float:
    from ragen_envs.errors import RagenError

    try:
        value = float(text.removesuffix("pp")) if text.endswith("pp") else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value < 100 or (value == 0 and what == "--effect"):
        raise RagenError(f"{what} is '{text}', but must be percentage points, such as 3pp")
    return value / 100


def _grid_of_levels(data: "pd.DataFrame", effect: str) -> Grid:
    rows = [
        [str(row["levels"]), f"{100 * row['power']:.0f}%", _found(row["finds"])]
        for row in data.to_dict("records")
    ]
    return Grid(["levels", f"chance to\nfind {effect}", "finds, pp"], rows, left=0)


def _found(smallest: float) -> str:
    return _NONE if smallest > 1 else f"{100 * smallest:.1f}"


def _grid(data: "pd.DataFrame") -> Grid:
    names = [str(name) for name in data.columns if str(name).startswith("finds_")]
    rows = [
        [
            str(row["levels"]),
            _NONE if row["seeds_needed"] < 1 else str(row["seeds_needed"]),
            *(_found(row[name]) for name in names),
        ]
        for row in data.to_dict("records")
    ]
    found = [name.removeprefix("finds_") for name in names]
    header = ["levels", "seeds\nneeded", *(f"{n} seeds\nfind, pp" for n in found)]
    return Grid(header, rows, left=0)
