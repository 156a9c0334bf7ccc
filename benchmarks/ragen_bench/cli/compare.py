"""``ragen compare``: two agents, paired by instance."""

from typing import Annotated

import typer

from ragen_bench.cli.options import FormatOption, UncheckedOption, WideOption
from ragen_bench.console.formats import Format, Grid, print_table


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
    table = comparison(first, second)
    if style in (Format.CSV, Format.JSON):
        facts = {"a": str(first), "b": str(second)}
        print_table(table, Grid([], [], 0), style, "", table.notes, facts)
        return
    for title, grid in table.grids.items():
        last = table.notes if title == "Return" else ()
        print_table(table, grid, style, title, last, wide=wide)
        if style is Format.MARKDOWN:
            print()
