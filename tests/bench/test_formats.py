"""How numbers are shown."""

import pytest
from ragen_bench.console.formats import number


@pytest.mark.parametrize(
    ("one", "other"), [(10.625, 10.625000000000002), (-0.075, -0.07500000000000001)]
)
def test_sums_in_another_order_look_alike(one, other):
    assert f"{one:.2f}" != f"{other:.2f}"
    assert number(one) == number(other)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(10.624, "10.62"), (10.626, "10.63"), (-0.001, "0.00"), (3, "3.00"), (float("nan"), "-")],
)
def test_other_numbers_are_rounded_as_ever(value, shown):
    assert number(value) == shown
