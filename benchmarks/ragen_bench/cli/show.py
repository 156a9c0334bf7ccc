"""``ragen show``, ``compare``, ``verify`` and ``power``: the numbers of runs, and how sure they are."""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragen_bench.cli.options import (
    BackendOption,
    ByOption,
    FormatOption,
    RunArgument,
    UncheckedOption,
    WideOption,
)
from ragen_bench.console.formats import Cells, Format, Grid, grid_of, print_table
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    import pandas as pd

    from ragen_bench.config.run_config import BaseConfig


def show(
    run: RunArgument,
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
    by: ByOption = None,
    unchecked: UncheckedOption = False,
) -> None:
    """Recompute the table of a run from its episodes and print it.

    --wide adds the columns of ragen explain, for which every decision is evaluated.
    """
    print_run(run, style, wide, by, not unchecked)


def print_run(
    folder: Path, style: Format, wide: bool = False, by: str | None = None, checked: bool = True
) -> int:
    """Print the table of a run; return how many of its episodes or matches failed."""
    from ragen_bench.config.run_config import MatchConfig, load_config

    if isinstance(load_config(folder, checked), MatchConfig):
        if by is not None:
            raise RagenError(f"--by needs a run of ragen bench; '{folder}' is one of ragen match")
        return _print_matches(folder, style, wide, checked)
    return _print_bench(folder, style, wide, by, checked)


def _print_bench(folder: Path, style: Format, wide: bool, by: str | None, checked: bool) -> int:
    from ragen_bench.api.run import Run

    run = Run(folder, checked=checked)
    if by is not None and run.records.episodes:
        table = run.curve(by)
    else:
        table = run.wide_table() if wide else run.table()
    print_table(table, style, _facts(folder, run.config, run.records.missing), wide)
    return sum(episode.is_failure for episode in run.records.episodes)


def _print_matches(folder: Path, style: Format, wide: bool, checked: bool) -> int:
    from ragen_bench.config.suites import levels_title
    from ragen_bench.console.tables import Table
    from ragen_bench.evaluation.match_table import (
        cross_play_grid,
        match_notes,
        read_match_run,
        reply_grid,
        seat_grid,
        summarise_matches,
    )
    from ragen_bench.runs.environments import version_notes

    run = read_match_run(folder, checked)
    data = summarise_matches(run)
    failed = sum(match.is_failure for match in run.records)
    notes = [*match_notes(run), *version_notes(folder)]
    facts = _facts(folder, run.config, run.missing)
    tables = {
        f"Success %, {levels_title(run.config.suite)}, {folder}": cross_play_grid(data, "success"),
        "Return": cross_play_grid(data, "return"),
        "Success % by seat": seat_grid(data),
        "Replies": reply_grid(data),
    }
    print_table(Table.of(data, tables, notes), style, facts, wide)
    return failed


def _facts(folder: Path, config: "BaseConfig", missing: int) -> dict[str, Any]:
    return {
        "run": str(folder),
        "suite": config.suite.name,
        "version": config.suite.version,
        "suite_version": config.suite_version,
        "split": config.suite.split,
        "missing": missing,
    }


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="RUN or RUN:AGENT.")],
    b: Annotated[
        str,
        typer.Argument(
            metavar="B",
            help="RUN, RUN:AGENT, :AGENT of A's run, or a control, which is played if it has not been.",
        ),
    ],
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
    unchecked: UncheckedOption = False,
) -> None:
    """Compare two agents on the levels that both have played.

    Success is compared with the exact McNemar test, or with a sign-flip test by level where levels
    repeat. Return is compared with a sign-flip test and the interval of a paired bootstrap, also by
    level where levels repeat. p-values are Holm-adjusted over the games. Without AGENT, the only
    agent of the run that is not a control is used.
    """
    from ragen_bench.api.evaluate import comparison, find_sides

    first, second = find_sides(a, b, not unchecked)
    print_table(comparison(first, second), style, {"a": str(first), "b": str(second)}, wide)


def verify(run: RunArgument, backend: BackendOption = "local") -> None:
    """Replay a run and recompute every number; exit 1 at the first that differs."""
    from ragen_bench.console.escaping import escape_unprintable
    from ragen_bench.console.progress import bar
    from ragen_bench.runs.environments import versions_of
    from ragen_bench.verification.run_verification import MismatchError, replayer, verify_run

    replay_all = replayer(backend)
    try:
        verified = verify_run(run, bar("verifying"), replay_all)
    except MismatchError as error:
        print(f"MISMATCH {escape_unprintable(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from None
    units = verified.units
    complete = "complete" if not verified.missing else f"UNFINISHED: {verified.missing} {units} missing"
    print(f"OK {verified.episodes} {units}, {verified.turns} turns replayed; {complete}")
    try:
        versions_of(run)
    except RagenError as error:
        print(f"note: {error}, so the versions it was played with are unknown")
    if verified.torn:
        print("note: the incomplete last line was skipped")
    if not verified.hashed:
        print("note: there are no checksums, so a changed reply with the same actions is not detected")
    if verified.unhashed:
        print(
            f"note: the checksums do not cover the last {verified.unhashed} of the {units}, as "
            "after an interruption, so replies with the same actions could be swapped there"
        )


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
        float, typer.Option(min=0.001, max=0.999, metavar="P", help="Success rate of the worse setting.")
    ] = 0.2,
    seed_sd: Annotated[
        str, typer.Option(help="Standard deviation of the success rate over training seeds.")
    ] = "3pp",
    correlation: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.99, metavar="R", help="Correlation of two runs' outcomes on the same level."
        ),
    ] = 0.3,
    style: FormatOption = Format.TABLE,
) -> None:
    """Show how many seeds and levels detect a difference between two settings with 80% power.

    The test is two-sided at 5%; levels are paired, seeds are not. With --seed-sd 0pp it
    compares two fixed models.
    """
    from ragen_bench.console.tables import Table
    from ragen_bench.stats.power import MOST_SEEDS, Design, plan_designs, plan_levels

    difference = _points(effect, "--effect")
    spread = _points(seed_sd, "--seed-sd")
    base = Design(2, 2, rate, spread, correlation)
    title = f"{effect} at a rate of {rate:g}, correlation {correlation:g}"
    if not spread:
        data = plan_levels(difference, base)
        print_table(Table.of(data, {title: _grid_of_levels(data, effect)}, [_ONCE]), style)
        return
    data = plan_designs(difference, base)
    grid = _grid(data)
    notes = []
    if any(_NONE in row for row in grid.rows):
        notes.append(f"{_NONE}: more than {MOST_SEEDS} seeds, or an impossible difference")
    print_table(Table.of(data, {f"{title}, seeds differ by {seed_sd}": grid}, notes), style)


def _points(text: str, what: str) -> float:
    try:
        value = float(text.removesuffix("pp")) if text.endswith("pp") else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value < 100 or (value == 0 and what == "--effect"):
        raise RagenError(f"{what} is '{text}', but must be percentage points, such as 3pp")
    return value / 100


def _grid_of_levels(data: "pd.DataFrame", effect: str) -> Grid:
    columns: dict[str, Cells] = {
        "levels": "levels",
        f"chance to\nfind {effect}": lambda row: f"{100 * row['power']:.0f}%",
        "finds, pp": partial(_found, "finds"),
    }
    return grid_of(data, columns, left=0)


def _found(name: str, row: Mapping[Any, Any]) -> str:
    return _NONE if row[name] > 1 else f"{100 * row[name]:.1f}"


def _grid(data: "pd.DataFrame") -> Grid:
    columns: dict[str, Cells] = {
        "levels": "levels",
        "seeds\nneeded": lambda row: str(row["seeds_needed"] or _NONE),
        **{
            f"{name.removeprefix('finds_')} seeds\nfind, pp": partial(_found, name)
            for name in data.columns[data.columns.str.startswith("finds_")]
        },
    }
    return grid_of(data, columns, left=0)
