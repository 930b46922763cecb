"""LU and QR decompositions of small matrices, in batches, by machine code: factors, determinants, inverses and solutions.

As in `triangular_cpu`, a call of LAPACK takes longer than these do. All is computed in float64, in an order that depends on the
shape of a matrix alone. The first number of what is computed is nan where a pivot is 0 or a number is not finite, or where a
square overflows or vanishes: then LAPACK is asked.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value
from tdt._kernels._gufunc import Operand, for_arrays, generalized
from tdt._kernels._launches import WATCH
from tdt._kernels._quick import quick
from tdt._kernels._small_matrices import MOST_ELIMINATED as MOST

KINDS = {"f": "float", "d": "double"}
LEAST_SQUARE, LARGEST_SQUARE = 1e-270, 1e270  # between which sums of squares have lost no digits


class Matrix:
    """A matrix of float64 on the stack, with rows of MOST numbers."""

    def __init__(self, code: Code):
        self.code, self.address = code, code.array("double", MOST * MOST)

    def get(self, i: Any, j: Any) -> Value:
        return self.code.load("double", self.address, self._place(i, j))

    def set(self, i: Any, j: Any, value: Value) -> None:
        self.code.store(value, self.address, self._place(i, j))

    def _place(self, i: Any, j: Any) -> Value:
        return self.code.value(i, "i64") * MOST + j

    def read(self, operand: Operand, kind: str, rows: Value, columns: Value, first: Any = 0) -> None:
        """Read `rows` × `columns` elements of an operand, from its column `first` on."""
        code = self.code
        with code.loop(0, rows) as i, code.loop(0, columns) as j:
            self.set(i, j, code.cast(code.load(kind, operand.place(code, i, j + first)), "double"))

    def set_to_identity(self, rows: Value, columns: Value) -> None:
        code = self.code
        with code.loop(0, rows) as i, code.loop(0, columns) as j:
            self.set(i, j, code.select(i == j, code.value(1.0, "double"), 0.0))

    def swap(self, i: Value, k: Value, columns: Value) -> None:
        """Exchange two rows."""
        with self.code.when(i != k), self.code.loop(0, columns) as j:
            one, other = self.get(i, j), self.get(k, j)
            self.set(i, j, other)
            self.set(k, j, one)

    def subtract(self, i: Value, factor: Value, k: Value, first: Any, columns: Value) -> None:
        """Row i minus a multiple of row k, from column `first` on."""
        code = self.code
        factor = _negative(code, factor)
        with code.loop(first, columns) as j:
            self.set(i, j, code.call("fma", factor, self.get(k, j), self.get(i, j)))


def _negative(code: Code, value: Value) -> Value:
    return code.new(value.kind, f"fneg {value.kind} {value.name}")


def _factorize(code: Code, a: Matrix, m: Value, n: Value, kind: str = "double") -> tuple[Value, Value]:
    """Replace a matrix by its factors L and U. The address of the rows that were swapped, in i64; and a number: 0, or nan.

    kind: the type in which no pivot may be 0 or infinite.
    """
    pivots, fault = code.array("i64", MOST), code.variable("double", 0.0)
    with code.loop(0, code.minimum(m, n)) as k:
        largest, place = code.variable("double", code.call("fabs", a.get(k, k))), code.variable("i64", k)
        with code.loop(k + 1, m) as i:
            size = code.call("fabs", a.get(i, k))
            larger = size > largest.get()
            place.set(code.select(larger, i, place.get()))
            largest.set(code.select(larger, size, largest.get()))
        code.store(place.get(), pivots, k)
        a.swap(place.get(), k, n)
        pivot = a.get(k, k)
        size = code.cast(largest.get(), kind)
        fine = (size > 0.0) & (size < math.inf)
        fault.set(code.select(fine, fault.get(), code.value(math.nan, "double")))
        with code.loop(k + 1, m) as i:
            factor = a.get(i, k) / pivot
            a.set(i, k, factor)
            a.subtract(i, factor, k, k + 1, n)
    return pivots, fault.get()


def _substitute(code: Code, a: Matrix, pivots: Value, n: Value, right: Matrix, count: Value) -> None:
    """Replace right sides by the solutions, where `a` has been factorized."""
    with code.loop(0, n) as k:
        right.swap(code.load("i64", pivots, k), k, count)
    with code.loop(0, n) as k, code.loop(k + 1, n) as i:
        right.subtract(i, a.get(i, k), k, 0, count)
    with code.loop(0, n) as step:
        i = n - 1 - step
        with code.loop(i + 1, n) as j:
            right.subtract(i, a.get(i, j), j, 0, count)
        pivot = a.get(i, i)
        with code.loop(0, count) as c:
            right.set(i, c, right.get(i, c) / pivot)


@generalized("(n,n)->()")
def _determinant(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    x, out = operands
    [n], a = sizes, Matrix(code)
    a.read(x, KINDS[letter], n, n)
    pivots, fault = _factorize(code, a, n, n)
    product = code.variable("double", 1.0 + fault)
    with code.loop(0, n) as k:
        value = a.get(k, k)
        swapped = code.load("i64", pivots, k) != k
        product.set(product.get() * code.select(swapped, _negative(code, value), value))
    code.store(code.cast(product.get(), KINDS[letter]), out.address)


@generalized("(n,n)->(n,n)")
def _inverse(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices → the transposes of their inverses."""
    x, out = operands
    [n], kind, a, right = sizes, KINDS[letter], Matrix(code), Matrix(code)
    a.read(x, kind, n, n)
    pivots, fault = _factorize(code, a, n, n)
    right.set_to_identity(n, n)
    _substitute(code, a, pivots, n, right, n)
    right.set(0, 0, right.get(0, 0) + fault)
    with code.loop(0, n) as j, code.loop(0, n) as i:
        code.store(code.cast(right.get(i, j), kind), out.place(code, j, i))


@generalized("(n,n),(n,k)->(k,n)")
def _solution(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices and right sides → the solutions, one a row."""
    x, b, out = operands
    (n, many), kind, a, right = sizes, KINDS[letter], Matrix(code), Matrix(code)
    a.read(x, kind, n, n)
    pivots, fault = _factorize(code, a, n, n)
    with code.loop(0, many, MOST) as first:
        count = code.minimum(many - first, MOST)
        right.read(b, kind, n, count, first)
        _substitute(code, a, pivots, n, right, count)
        right.set(0, 0, right.get(0, 0) + fault)
        with code.loop(0, count) as j, code.loop(0, n) as i:
            code.store(code.cast(right.get(i, j), kind), out.place(code, first + j, i))


@generalized("(m,n)->(n,m),(k)")
def _factors(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices → the transposes of L and U in one, and LAPACK's numbers of the rows that were swapped."""
    x, out, rows = operands
    (m, n, k), kind, a = sizes, KINDS[letter], Matrix(code)
    a.read(x, kind, m, n)
    pivots, fault = _factorize(code, a, m, n, kind)
    a.set(0, 0, a.get(0, 0) + fault)
    with code.loop(0, n) as j, code.loop(0, m) as i:
        code.store(code.cast(a.get(i, j), kind), out.place(code, j, i))
    with code.loop(0, k) as i:
        code.store(code.cast(code.load("i64", pivots, i) + 1, "i32"), rows.place(code, i))


@generalized("(m,n)->(m,m),(m,k),(k,n)")
def _permuted(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices → P, L and U."""
    x, p, lower, upper = operands
    (m, n, k), kind, a = sizes, KINDS[letter], Matrix(code)
    zero, one = (code.value(each, kind) for each in (0.0, 1.0))
    a.read(x, kind, m, n)
    pivots, fault = _factorize(code, a, m, n, kind)
    order = code.array("i64", MOST)
    with code.loop(0, m) as i:
        code.store(i, order, i)
    with code.loop(0, k) as i:
        other = code.load("i64", pivots, i)
        here, there = code.load("i64", order, i), code.load("i64", order, other)
        code.store(there, order, i)
        code.store(here, order, other)
    with code.loop(0, m) as i:
        with code.loop(0, m) as j:
            code.store(zero, p.place(code, j, i))
        code.store(one, p.place(code, code.load("i64", order, i), i))
        with code.loop(0, k) as j:
            value = code.cast(a.get(i, j), kind)
            code.store(code.select(i > j, value, code.select(i == j, one, 0.0)), lower.place(code, i, j))
    with code.loop(0, k) as i, code.loop(0, n) as j:
        code.store(code.select(i > j, zero, code.cast(a.get(i, j), kind)), upper.place(code, i, j))
    code.store(code.load(kind, p.address) + code.cast(fault, kind), p.address)


def _reflect(code: Code, v: Matrix, i: Value, scale: Value, a: Matrix, m: Value, first: Value, columns: Value) -> None:
    """Apply reflection i, whose vector is 1 and then column i of `v` below the diagonal, to columns of `a` from `first` on."""
    totals = code.array("double", MOST)
    with code.loop(first, columns) as j:
        code.store(a.get(i, j), totals, j)
    with code.loop(i + 1, m) as r:
        factor = v.get(r, i)
        with code.loop(first, columns) as j:
            code.store(code.call("fma", factor, a.get(r, j), code.load("double", totals, j)), totals, j)
    with code.loop(first, columns) as j:
        total = code.load("double", totals, j) * scale
        code.store(total, totals, j)
        a.set(i, j, a.get(i, j) - total)
    with code.loop(i + 1, m) as r:
        factor = _negative(code, v.get(r, i))
        with code.loop(first, columns) as j:
            a.set(r, j, code.call("fma", factor, code.load("double", totals, j), a.get(r, j)))


@generalized("(m,n)->(q,m),(n,k)")
def _orthogonal(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """Matrices → the transposes of the first q columns of Q, and of the first k rows of R, by Householder's reflections."""
    x, out_q, out_r = operands
    (m, n, q, k), kind, a, turned = sizes, KINDS[letter], Matrix(code), Matrix(code)
    scales, fault = code.array("double", MOST), code.variable("double", 0.0)
    a.read(x, kind, m, n)
    steps = code.minimum(m, n)
    with code.loop(0, steps) as i:
        first, squares, sizes_below = a.get(i, i), code.variable("double", 0.0), code.variable("double", 0.0)
        with code.loop(i + 1, m) as r:
            value = a.get(r, i)
            squares.set(code.call("fma", value, value, squares.get()))
            sizes_below.add(code.call("fabs", value))
        whole = code.call("fma", first, first, squares.get())
        code.store(code.value(0.0, "double"), scales, i)
        with code.when(sizes_below.get() != 0.0):  # else the column has zeros below the diagonal already
            fine = (squares.get() > LEAST_SQUARE) & (whole < LARGEST_SQUARE)
            fault.set(code.select(fine, fault.get(), code.value(math.nan, "double")))
            diagonal = _negative(code, code.call("copysign", code.call("sqrt", whole), first))
            code.store((diagonal - first) / diagonal, scales, i)
            with code.loop(i + 1, m) as r:
                a.set(r, i, a.get(r, i) / (first - diagonal))
            _reflect(code, a, i, code.load("double", scales, i), a, m, i + 1, n)
            a.set(i, i, diagonal)
        fault.set(fault.get() + (a.get(i, i) - a.get(i, i)))  # nan for what is not finite
    turned.set_to_identity(m, q)
    with code.loop(0, steps) as step:
        i = steps - 1 - step
        scale = code.load("double", scales, i)
        with code.when(scale != 0.0):
            _reflect(code, a, i, scale, turned, m, i, q)
    turned.set(0, 0, turned.get(0, 0) + fault.get())
    with code.loop(0, q) as j, code.loop(0, m) as i:
        code.store(code.cast(turned.get(i, j), kind), out_q.place(code, j, i))
    with code.loop(0, n) as j, code.loop(0, k) as i:
        value = code.select(i > j, code.value(0.0, "double"), a.get(i, j))
        code.store(code.cast(value, kind), out_r.place(code, j, i))


@functools.cache
def _of_letter(write: Callable[..., Callable], types: str, letter: str) -> Callable[..., np.ndarray]:
    return quick(write(types, letter))


def determinant(x: np.ndarray) -> np.ndarray:
    """The determinants of matrices, computed in float64."""
    WATCH.lose()
    letter = x.dtype.char
    return np.asarray(_of_letter(_determinant, 2 * letter, letter)(x))


def inverse(x: np.ndarray) -> np.ndarray:
    """The inverses of matrices; their columns are in order in memory."""
    WATCH.lose()
    letter = x.dtype.char
    return _in_columns(_of_letter(_inverse, 2 * letter, letter)(x))


def solution(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with a X = b, for matrices of one type; the columns of X are in order in memory."""
    WATCH.lose()
    letter = b.dtype.char
    return _in_columns(_of_letter(_solution, 3 * letter, letter)(a, b))


def factors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and U in one, whose columns are in order in memory, and the numbers from 1 of the rows that were swapped, in int32."""
    both, rows = _call(x, "factors")
    return both.swapaxes(-1, -2), rows


def permuted(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U, contiguous."""
    return _call(x, "permuted")


def orthogonal(x: np.ndarray, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    """Q and R, whose columns are in order in memory; of the square Q only as many columns as are necessary, unless `complete`."""
    q, r = _call(x, "complete" if complete else "reduced")
    return q.swapaxes(-1, -2), r.swapaxes(-1, -2)


def _call(x: np.ndarray, how: str) -> Any:
    WATCH.lose()
    function, contiguous = _functions(x.shape, x.dtype.char, how)
    return (contiguous if x.flags.c_contiguous else function)(x)


@functools.lru_cache(1000)
def _functions(shape: tuple[int, ...], letter: str, how: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What computes several results for matrices of a shape, and the same for contiguous ones."""
    *batch, m, n = shape
    k = m if how == "complete" else min(m, n)
    ufunc, shapes = {
        "factors": lambda: (_factors(2 * letter + "i", letter), ((n, m), (k,))),
        "permuted": lambda: (_permuted(4 * letter, letter), ((m, m), (m, k), (k, n))),
    }.get(how, lambda: (_orthogonal(3 * letter, letter), ((k, m), (n, k))))()
    results = [np.empty((*batch, *each), letter if len(each) == 2 else np.int32) for each in shapes]

    def function(x: np.ndarray) -> Any:
        return ufunc(x, out=tuple([np.empty(each.shape, each.dtype) for each in results]))

    return function, for_arrays(function, ufunc, [np.empty(shape, letter)], [(each, each) for each in results])


def _in_columns(rows: np.ndarray) -> np.ndarray:
    """NumPy orders the batch as that of its operands."""
    return np.ascontiguousarray(rows).swapaxes(-1, -2)
