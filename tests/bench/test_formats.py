"""How numbers are shown."""

import re

import pandas as pd
import pytest
from ragen_bench.console.formats import Format, Grid, interval, number, print_table
from ragen_bench.console.tables import Table


@pytest.mark.parametrize(("one", "other"), [(10.625, 10.625000000000002), (-0.075, -0.07500000000000001)])
def test_sums_in_another_order_look_alike(one, other):
    assert f"{one:.2f}" != f"{other:.2f}"
    assert number(one) == number(other)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(10.624, "10.62"), (10.626, "10.63"), (-0.001, "0.00"), (3, "3.00"), (float("nan"), "-")],
)
def test_other_numbers_are_rounded_as_ever(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize("style", [Format.TABLE, Format.MARKDOWN])
def test_names_cannot_command_the_terminal(style, capsys):
    grid = Grid(["agent", "n"], [["a\x1b[2J", "1"]], left=1)
    print_table(Table.of(pd.DataFrame(), {"of \x1b[31m": grid}, ["b\x1b[2J"]), style)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "a⟨U+001B⟩[2J" in shown


def test_markdown_has_titles_and_blank_lines(capsys):
    grid = Grid(["a"], [["1"]], left=1)
    print_table(Table.of(pd.DataFrame(), {"One": grid, "Two": grid}, ["b"]), Format.MARKDOWN)
    shown = "| a |\n| :-- |\n| 1 |\n"
    assert capsys.readouterr().out == f"One\n\n{shown}\nTwo\n\n{shown}\nb\n"


@pytest.mark.parametrize(("columns", "lost"), [(13, []), (10, []), (7, ["n"])])
def test_a_table_is_set_tighter_before_columns_are_left_out(columns, lost, capsys, monkeypatch):
    terminal(monkeypatch, columns)
    grid = Grid(["a", "n", "b", "c"], [["1", "2", "3", "4"]], left=1, hideable=("n",))
    header = lines_shown(grid, capsys)[0]
    assert header.split() == [name for name in grid.header if name not in lost]
    assert len(header) == columns


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (40, ["x   50.0 [1.0, 99.0]   1 s against 2 s"]),
        (30, ["x         50.0          1 s", "[1.0, 99.0]  against 2 s"]),
    ],
)
def test_intervals_get_lines_of_their_own_before_a_table_is_too_wide(columns, lines, capsys, monkeypatch):
    terminal(monkeypatch, columns)
    grid = Grid(["a", "%", "s"], [["x", "50.0 [1.0, 99.0]", "1 s against 2 s"]], left=1)
    assert [line.strip() for line in lines_shown(grid, capsys)[2:]] == lines


def test_intervals_that_do_not_fit_are_left_out_where_a_table_allows_it(capsys, monkeypatch):
    terminal(monkeypatch, 14)
    rows = [["x", "50.0 [1.0, 99.0]", "-"]]
    grid = Grid(["a", "b", "c"], rows, left=1, hideable=("d",), intervals_hideable=True)
    lines = lines_shown(grid, capsys)
    assert "left out at 14 columns: intervals;" in " ".join(lines)
    assert lines[2].split() == ["x", "50.0", "-"]
    terminal(monkeypatch, 20)
    assert "[1.0, 99.0]" in " ".join(lines_shown(grid, capsys))


NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ((1, 0.5, 2), "1.00 [0.50, 2.00]"),
        ((1, NAN, 2), "1.00 [-, 2.00]"),
        ((1, NAN, NAN), "1.00 [-]"),
        ((NAN, NAN, NAN), "-"),
    ],
)
def test_what_is_not_defined_of_an_interval_is_a_dash(found, shown):
    assert interval(*found) == shown


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Let tables be printed on a terminal of that many columns."""
    for name, value in {"COLUMNS": str(columns), "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)


def lines_shown(grid: Grid, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of a table as it is printed."""
    print_table(Table.of(pd.DataFrame(), {"": grid}), Format.TABLE)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line for line in shown.splitlines() if line.strip()]
