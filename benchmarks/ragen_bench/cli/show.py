"""``ragen show``: the table of a run, computed again from its episodes."""

from pathlib import Path

from ragen_bench.cli.options import FormatOption, RunArgument
from ragen_bench.formats import Format, print_table, score_grid


def show(run: RunArgument, style: FormatOption = Format.TABLE) -> None:
    """Print the table of a run again."""
    print_run(run, style)


def print_run(folder: Path, style: Format) -> None:
    """Print the table of a run."""
    from ragen_bench.tables import notes, read_run, summarise

    run = read_run(folder)
    data = summarise(run)
    suite = run.config.suite
    about = f"{suite.name} {suite.version}, {suite.split} levels, {folder}"
    facts = {
        "run": str(folder),
        "suite": suite.name,
        "version": suite.version,
        "suite_version": run.config.suite_version,
        "split": suite.split,
        "missing": run.missing,
    }
    print_table(data, score_grid(data), style, about, notes(run), facts)
