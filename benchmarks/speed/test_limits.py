"""The limits of this machine, on the core and in the run that everything else is measured on."""

# ruff: noqa: D103

from codecs import charmap_decode
from typing import Any

import numpy as np
import pytest
from limits import (
    DECODE,
    LIMITS,
    NUMPY,
    PYTHON,
    SIDES,
    SIZES,
    STEP,
    copy,
    empty_step,
    product,
)
from measuring import measure

CALLS = 100


def repeated(work: Any) -> Any:
    def many() -> None:
        for _ in range(CALLS):
            work()

    return many


def nothing() -> None:
    pass


def test_a_python_call(benchmark: Any) -> None:
    measure(benchmark, repeated(nothing), LIMITS, PYTHON, items=CALLS)


def test_a_numpy_call(benchmark: Any) -> None:
    array = np.zeros(8)
    measure(benchmark, repeated(lambda: np.add(array, array, out=array)), LIMITS, NUMPY, items=CALLS)


def test_decoding(benchmark: Any) -> None:
    cells, table = bytes(36), "#" * 256
    work = repeated(lambda: charmap_decode(cells, "strict", table))
    measure(benchmark, work, LIMITS, DECODE, items=CALLS)


def test_a_step_without_a_game(benchmark: Any) -> None:
    measure(benchmark, repeated(empty_step()), LIMITS, STEP, items=CALLS)


@pytest.mark.parametrize("size", SIZES)
def test_copying(benchmark: Any, size: str) -> None:
    count = SIZES[size]
    measure(benchmark, copy(count), LIMITS, f"copying {size}, a GB", items=count / 1e9)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("side", SIDES)
def test_matrix_products(benchmark: Any, side: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    row = f"a matrix product of {side}, {dtype}, 10^9 operations"
    measure(benchmark, product(side, dtype), LIMITS, row, items=2 * side**3 / 1e9)
