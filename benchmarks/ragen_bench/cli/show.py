"""``ragen show``: the table of a run, recomputed from its episodes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragen_bench.cli.options import (
    ByOption,
    FormatOption,
    RunArgument,
    UncheckedOption,
    WideOption,
)
from ragen_bench.console.formats import Format, Grid, print_table, score_grid

if TYPE_CHECKING:
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
        return _print_matches(folder, style, wide, checked)
    return _print_bench(folder, style, wide, by, checked)


def _print_bench(folder: Path, style: Format, wide: bool, by: str | None, checked: bool) -> int:
    from ragen_bench.analysis.summary import explain_run, with_decisions
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.curves import curve_grid, success_curve
    from ragen_bench.evaluation.notes import run_notes, with_defects
    from ragen_bench.evaluation.run_table import read_run, summarise

    run = read_run(folder, checked)
    failed = sum(e.is_failure for sample in run.samples.values() for e in sample.values())
    about = f"{_title(run.config)}, {folder}"
    facts = _facts(folder, run.config, run.missing)
    if by is not None:
        data, notes = success_curve(run, by)
        print_table(data, curve_grid(data), style, f"Success by {by}, {about}", notes, facts, wide)
        return failed
    data = summarise(run)
    left_out: tuple[str, ...] = ()
    if wide:
        with bar("explaining") as tick:
            explained = explain_run(run, tick)
        data, left_out = with_decisions(data, run, explained), explained.left_out
    if style is Format.JSON:
        data = with_defects(data, run)
    print_table(data, score_grid(data), style, about, run_notes(run, left_out), facts, wide)
    return failed


def _print_matches(folder: Path, style: Format, wide: bool, checked: bool) -> int:
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
    failed = sum(m.is_failure for levels in run.matches.values() for m in levels.values())
    notes = [*match_notes(run), *version_notes(folder)]
    facts = _facts(folder, run.config, run.missing)
    if style in (Format.CSV, Format.JSON):
        print_table(data, Grid([], [], 0), style, "", notes, facts)
        return failed
    tables = {
        f"Success %, {_title(run.config)}, {folder}": cross_play_grid(data, "success"),
        "Return": cross_play_grid(data, "return"),
        "Success % by seat": seat_grid(data),
        "Replies": reply_grid(data),
    }
    for title, grid in tables.items():
        if style is Format.MARKDOWN:
            print(f"{title}\n")
        said = notes if title == "Replies" else ()
        print_table(data, grid, style, title, said, wide=wide)
        print()
    return failed


def _title(config: "BaseConfig") -> str:
    from ragen_bench.config.own_levels import own_level_count

    suite = config.suite
    own = all(own_level_count(task.settings) for task in suite.tasks.values())
    return f"{suite.name} {suite.version}, {'own' if own else suite.split} levels"


def _facts(folder: Path, config: "BaseConfig", missing: int) -> dict[str, Any]:
    return {
        "run": str(folder),
        "suite": config.suite.name,
        "version": config.suite.version,
        "suite_version": config.suite_version,
        "split": config.suite.split,
        "missing": missing,
    }
