"""``ragen compare``: two agents, paired by instance."""

from typing import Annotated

import typer

from ragen_bench.cli.options import FormatOption, WideOption
from ragen_bench.console.formats import Format, Grid, print_table


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="RUN or RUN:AGENT.")],
    b: Annotated[str, typer.Argument(metavar="B", help="RUN, RUN:AGENT, or :AGENT of A's run.")],
    style: FormatOption = Format.TABLE,
    wide: WideOption = False,
) -> None:
    """Compare two agents on the levels that both have played.

    Success is compared with the exact McNemar test, or with a sign-flip test by level where levels
    repeat. Return is compared with a sign-flip test and the interval of a paired bootstrap, also by
    level where levels repeat. p-values are Holm-adjusted over the games. Without AGENT, the only
    agent of the run that is not a control is used.
    """
    from ragen_bench.evaluation.comparison import compare_sides, comparison_grid, read_side

    first = read_side(a)
    second = read_side(b, first)
    data, notes = compare_sides(first, second)
    if style in (Format.CSV, Format.JSON):
        facts = {"a": str(first), "b": str(second)}
        print_table(data, Grid([], [], 0), style, "", notes, facts)
        return
    for measure in ("success", "return"):
        part = data[data["measure"] == measure]
        if part.empty:
            continue
        last = notes if measure == "return" else ()
        print_table(
            part, comparison_grid(part, measure), style, measure.capitalize(), last, wide=wide
        )
        if style is Format.MARKDOWN:
            print()
