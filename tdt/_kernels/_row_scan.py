"""Running sums, products and extremes, and the extremes of rows with their places, of small arrays: generalised ufuncs.

A row's results have the bits of `scan_cpu`, which computes them one by one in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._fold import STORED, read, write
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._syntax import FLOATS, element, vector
from tdt._kernels.scan_cpu import WIDTH, extremes_of_row, extremes_one_by_one, running_type

SCANNED, COMPARED = "fdlq", "fdbhilq"  # letters of the types that have code
RUNNING = ("sum", "narrow", "prod")
COUNTS = (WIDTH, 4, 2, 0)  # columns that are added along side by side
COMPARED_COUNTS = (2 * WIDTH, *COUNTS)  # the same, whose extremes are found


@generalized("(n)->(n)")
def row_scan(code: Code, operands: list[Operand], sizes: list[Value], how: str, letter: str, backwards: bool) -> None:
    """The running "sum" or "prod"; "narrow": sums in x's own type."""
    (x, out), (n,) = operands, sizes
    wide = running_type(how, letter)
    total = code.variable(wide, int(how == "prod"))
    with code.loop(0, n) as k:
        i = n - 1 - k if backwards else k
        value = code.cast(read(code, letter, x.place(code, i), 0), wide)
        total.set(total.get() * value if how == "prod" else total.get() + value)
        write(code, letter, total.get(), out.place(code, i), 0)


@generalized("(n,m)->(n,m)")
def column_scan(
    code: Code, operands: list[Operand], sizes: list[Value], how: str, letter: str, backwards: bool
) -> None:
    """`row_scan` of the columns of a contiguous matrix, side by side."""
    (x, out), (n, m) = operands, sizes
    wide, done = running_type(how, letter), code.variable("i64", 0)
    for count in COUNTS:
        with code.loop(done.get(), m - (max(count, 1) - 1), max(count, 1)) as column:
            total = code.variable(vector(wide, count), int(how == "prod"))
            with code.loop(0, n) as k:
                place = (n - 1 - k if backwards else k) * m + column
                value = code.cast(read(code, letter, x.address, place, count), wide)
                total.set(total.get() * value if how == "prod" else total.get() + value)
                write(code, letter, total.get(), out.address, place)
        if count:
            start = done.get()
            done.set(start + (m - start) // count * count)


@generalized("(n)->(n),(n)")
def row_extremes(code: Code, operands: list[Operand], sizes: list[Value], how: str, letter: str) -> None:
    """The running "max" or "min" and its last index; nan persists."""
    (x, values, indices), (n,) = operands, sizes
    size = SIZES[STORED[letter][0]]
    dense = (x.strides[0] == size) & (values.strides[0] == size) & (indices.strides[0] == 8)

    def with_gaps() -> None:
        extremes_one_by_one(code, how, letter, n, lambda k: [each.place(code, k) for each in operands])

    places = x.address, values.address, indices.address
    code.choose(dense, lambda: extremes_of_row(code, how, letter, *places, n), with_gaps)


@generalized("(n)->(),()")
def row_extreme(code: Code, operands: list[Operand], sizes: list[Value], how: str, letter: str) -> None:
    """The first largest or smallest element ("max", "min"), or the first nan, and its index."""
    (x, value, index), (n,) = operands, sizes
    first = read(code, letter, x.address, 0)
    best, at = code.variable(first.kind, first), code.variable("i64", 0)
    with code.loop(1, n) as k:
        number, old = read(code, letter, x.place(code, k), 0), best.get()
        better = _better(how, number, old)
        best.set(code.select(better, number, old))
        at.set(code.select(better, k, at.get()))
    write(code, letter, best.get(), value.address, 0)
    code.store(at.get(), index.address)


@generalized("(n,m)->(m),(m)")
def column_extreme(code: Code, operands: list[Operand], sizes: list[Value], how: str, letter: str) -> None:
    """`row_extreme` of the columns of a matrix whose rows are contiguous, side by side; n is below 2³¹."""
    (x, values, indices), (n, m) = operands, sizes
    counter = "i64" if SIZES[STORED[letter][0]] == 8 else "i32"  # as wide as an element at least: fewer registers
    done = code.variable("i64", 0)
    for count in COMPARED_COUNTS:
        with code.loop(done.get(), m - (max(count, 1) - 1), max(count, 1)) as column:
            first = read(code, letter, x.address, column, count)
            best, at = code.variable(first.kind, first), code.variable(vector(counter, count), 0)
            with code.loop(1, n) as k:
                number, old = read(code, letter, code.at("i8", x.address, k * x.strides[0]), column, count), best.get()
                better = _better(how, number, old)
                place = code.cast(k, counter)
                best.set(code.select(better, number, old))
                at.set(code.select(better, code.splat(place, count) if count else place, at.get()))
            write(code, letter, best.get(), values.address, column)
            code.store(code.cast(at.get(), "i64"), indices.address, column)
        if count:
            start = done.get()
            done.set(start + (m - start) // count * count)


def _better(how: str, number: Value, old: Value) -> Value:
    """Whether a number takes the place of the one found before it; nan does, and keeps it."""
    better = number > old if how == "max" else number < old
    return (better | (number != number)) & (old == old) if element(number.kind) in FLOATS else better


def column_function(name: str, dtype: np.dtype, option: bool = False) -> Callable[..., Any] | None:
    """As `row_function`, for "sum", "narrow", "prod", "max" and "min" over the first dimension of contiguous matrices."""
    letter = dtype.char
    if not dtype.isnative or letter not in (SCANNED if name in RUNNING else COMPARED):
        return None
    return (
        column_scan(letter * 2, name, letter, option)
        if name in RUNNING
        else column_extreme(letter * 2 + "q", name, letter)
    )


def row_function(name: str, dtype: np.dtype, option: bool = False) -> Callable[..., Any] | None:
    """The ufunc of the last dimension, or None for other types.

    Args:
        name: "sum", "narrow" and "prod" (running, from the end with `option`), "cummax", "cummin", "max", "min".
    """
    letter = dtype.char
    if not dtype.isnative or letter not in (SCANNED if name in RUNNING else COMPARED):
        return None
    if name in RUNNING:
        return row_scan(letter * 2, name, letter, option)
    if name.startswith("cum"):
        return row_extremes(letter * 2 + "q", name[3:], letter)
    return row_extreme(letter * 2 + "q", name, letter)
