"""Reading the constructor arguments of games; each error names the argument, its value and the choices."""

import math
import operator
from collections.abc import Iterable, Sequence
from numbers import Real
from os import PathLike
from typing import Any, TypeVar, cast

from ragen_envs.errors import RagenError

_T = TypeVar("_T")

Level = str | Sequence[str]
"""A level that a constructor is given; see `read_level`."""
Levels = str | PathLike[str] | Sequence[Level]
"""Several of them, or the file that has them."""


def read_count(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return an integer from ``low`` to ``high``, or raise `RagenError`; a bool is no integer."""
    if not _is_count(value, low, high):
        limits = f">= {low}" if high is None else f"from {low} to {high}"
        raise RagenError(f"{name} is {value!r}, but must be an integer {limits}")
    return int(value)


def read_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a finite number from ``low`` to ``high``, or raise `RagenError`; a bool is no number."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        limits = f"number from {low:g} to {high:g}"
        if high == math.inf:
            limits = "finite number" if low == -math.inf else f"finite number >= {low:g}"
        raise RagenError(f"{name} is {value!r}, but must be a {limits}")
    return float(value)


def read_sides(name: str, value: Any, low: int, high: int) -> tuple[int, int]:
    """Return (height, width) of one or two integers from ``low`` to ``high``, or raise `RagenError`."""
    pair = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(pair) != 2 or not all(_is_count(side, low, high) for side in pair):
        raise RagenError(f"{name} is {value!r}, but must be one or two integers from {low} to {high}")
    return int(pair[0]), int(pair[1])


def read_choice(name: str, value: Any, choices: Iterable[_T]) -> _T:
    """Return one of some values, or raise `RagenError`."""
    known = tuple(choices)
    if value not in known:
        raise RagenError(f"{name} is {value!r}, but must be one of {', '.join(map(str, known))}")
    return cast("_T", value)


def read_level(name: str, value: Any) -> str:
    """Return a level in text form, which joins the rows of a list by /, or raise `RagenError`."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not value or not all(isinstance(row, str) for row in value):
        raise RagenError(f"{name} is {value!r}, but must be a text or a list of rows")
    return "/".join(value)


def _is_count(value: Any, low: int, high: int | None) -> bool:
    try:
        number = operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool) and low <= number and (high is None or number <= high)
