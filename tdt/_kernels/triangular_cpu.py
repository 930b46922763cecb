"""Triangular systems and Cholesky decompositions of small matrices, in batches, by machine code.

A call of a BLAS or LAPACK routine takes longer than these do: its arguments are looked at and its results created in Python.
Elements are computed in an order that depends on the number of rows alone, which decides whether this code is used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._launches import WATCH
from tdt._kernels._quick import quick
from tdt._kernels._small_matrices import MOST_ROWS

TOGETHER = 8  # columns that are solved at a time: each waits for its own sum
KINDS = {"f": "float", "d": "double"}


def solved(a: np.ndarray, b: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray:
    """X with a X = b, for matrices of one type with up to MOST_ROWS rows; the columns of X are in order in memory."""
    WATCH.lose()
    columns = _solver(b.dtype.char, upper, unitriangular)(a, b)
    return np.ascontiguousarray(columns).swapaxes(-1, -2)  # NumPy orders the batch as those of the operands


def cholesky(x: np.ndarray) -> np.ndarray:
    """The lower factors of matrices with up to MOST_ROWS rows, computed in float64. Of one without, the first element is nan."""
    WATCH.lose()
    return np.ascontiguousarray(_decomposer(x.dtype.char)(x))


@functools.cache
def _solver(letter: str, upper: bool, unitriangular: bool) -> Callable[..., np.ndarray]:
    return quick(_solve(3 * letter, letter, upper, unitriangular))


@functools.cache
def _decomposer(letter: str) -> Callable[..., np.ndarray]:
    return quick(_decompose(2 * letter, letter))


@generalized("(n,n),(n,k)->(k,n)", vectorize=False)
def _solve(
    code: Code, operands: list[Operand], sizes: list[Value], letter: str, upper: bool, unitriangular: bool
) -> None:
    """A triangular matrix and the right sides → the solutions, one a row."""
    a, b, out = operands
    (n, count), kind = sizes, KINDS[letter]

    def solve(column: Value, many: int) -> None:
        columns = [column + q for q in range(many)]

        def row(step: Value) -> Value:
            return n - 1 - step if upper else step

        with code.loop(0, n) as t:
            i = row(t)
            totals = [code.variable(kind, code.load(kind, b.place(code, i, c))) for c in columns]
            with code.loop(0, t) as s:
                j = row(s)
                factor = _negative(code, code.load(kind, a.place(code, i, j)))
                for total, c in zip(totals, columns, strict=True):
                    total.set(code.call("fma", factor, code.load(kind, out.place(code, c, j)), total.get()))
            pivot = None if unitriangular else code.load(kind, a.place(code, i, i))
            for total, c in zip(totals, columns, strict=True):
                value = total.get()
                code.store(value if pivot is None else value / pivot, out.place(code, c, i))

    whole = count // TOGETHER * TOGETHER
    with code.loop(0, whole, TOGETHER) as column:
        solve(column, TOGETHER)
    with code.loop(whole, count) as column:
        solve(column, 1)


@generalized("(n,n)->(n,n)", vectorize=False)
def _decompose(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices of which the lower triangles are read → their lower factors, with zeros above the diagonals."""
    x, out = operands
    [n], kind = sizes, KINDS[letter]
    factor, failed = code.array("double", MOST_ROWS * MOST_ROWS), code.variable("i1", code.value(0, "i1"))

    def element(i: Value, j: Value) -> Value:
        total = code.variable("double", code.cast(code.load(kind, x.place(code, i, j)), "double"))
        with code.loop(0, j) as k:
            one, other = (code.load("double", factor, row * MOST_ROWS + k) for row in (i, j))
            total.set(code.call("fma", _negative(code, one), other, total.get()))
        return total.get()

    def keep(value: Value, i: Value, j: Value) -> None:
        code.store(value, factor, i * MOST_ROWS + j)
        code.store(code.cast(value, kind), out.place(code, i, j))

    with code.loop(0, n) as j:
        square = element(j, j)
        failed.set(failed.get() | ~(square > 0.0))  # also for nan
        root = code.call("sqrt", square)
        keep(root, j, j)
        with code.loop(j + 1, n) as i:
            keep(element(i, j) / root, i, j)
            code.store(code.value(0.0, kind), out.place(code, j, i))
    with code.when(failed.get()):
        code.store(code.value(math.nan, kind), out.address)


def _negative(code: Code, value: Value) -> Value:
    return code.new(value.kind, f"fneg {value.kind} {value.name}")
