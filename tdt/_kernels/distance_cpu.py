"""Distances between rows of matrices, and their gradients, as NumPy's generalised ufuncs.

What is summed for a pair of rows follows from their length alone: lanes of WIDE numbers, then of NARROW, and in double
precision over parts of MOST_SUMMED. Orders are 0, 1, 2 and infinity, the gradients' 1 and 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._gufunc import Operand, generalized

WIDE, NARROW = 32, 8  # numbers of a vector, which LLVM divides into registers
FEW_COLUMNS = 32  # of a matrix whose pairs of rows are computed side by side, each in order of the columns
MOST_SUMMED = 1024  # numbers of a row that are summed before the lanes are joined
KINDS = {"f": "float", "d": "double"}


def _part(code: Code, total: Value, difference: Value, order: float) -> Value:
    """`total` with the differences of some more elements."""
    size = code.call("fabs", difference)
    if order == 2:
        return total + difference * difference
    if order == 1:
        return total + size
    if order == 0:
        return total + code.select(size > 0.0, 1.0, size)  # NaN of NaN
    return _larger(code, total, size)


def _larger(code: Code, a: Value, b: Value) -> Value:
    """The larger one; NaN if one is."""
    return code.select((a >= b) | (a != a), a, b)


def _halved(code: Code, lanes: Value, order: float) -> Value:
    """The two halves of a vector as one."""
    low, high = code.halves(lanes)
    return low + high if math.isfinite(order) else _larger(code, low, high)


def _distance(code: Code, a: Value, b: Value, m: Value, kind: str, order: float, without_nan: bool = False) -> Value:
    """The distance of two rows of m elements at these addresses; without_nan: differences that are NaN count as 0."""

    def known(difference: Value) -> Value:
        return code.select(difference == difference, difference, 0.0) if without_nan else difference

    total = code.variable("double", 0.0)
    with code.loop(0, m, MOST_SUMMED) as start:
        stop = code.minimum(start + MOST_SUMMED, m)
        lanes = code.variable(f"<{NARROW} x {kind}>", 0.0)

        def difference(i: Value, count: int) -> Value:
            return known(code.load(kind, a, i, count) - code.load(kind, b, i, count))

        whole = start + (stop - start) // WIDE * WIDE
        with code.when(whole > start):
            wide = code.variable(f"<{WIDE} x {kind}>", 0.0)
            with code.loop(start, whole, WIDE) as i:
                wide.set(_part(code, wide.get(), difference(i, WIDE), order))
            lanes.set(_halved(code, _halved(code, wide.get(), order), order))
        several = whole + (stop - whole) // NARROW * NARROW
        with code.loop(whole, several, NARROW) as i:
            lanes.set(_part(code, lanes.get(), difference(i, NARROW), order))
        with code.when(several < stop):
            rest = [code.load_first(kind, code.at(kind, row, several), stop - several, NARROW) for row in (a, b)]
            lanes.set(_part(code, lanes.get(), known(rest[0] - rest[1]), order))
        found = lanes.get()
        while found.kind != kind:
            found = _halved(code, found, order)
        found = code.cast(found, "double")
        total.set(total.get() + found if math.isfinite(order) else _larger(code, total.get(), found))
    distance = code.call("sqrt", total.get()) if order == 2 else total.get()
    return code.cast(distance, kind)


def _spread(
    code: Code, a: Value, b: Value, m: Value, factor: Value, order: float, add: Callable[[Value, Value, int], None]
) -> None:
    """`add(i, change, count)` for all elements from i of a row `a`: the gradient of its distance to `b`, times `factor`.

    factor: the distance's own gradient, over the distance for order 2.
    """
    kind = factor.kind

    def change(i: Value, count: int) -> None:
        difference = code.load(kind, a, i, count) - code.load(kind, b, i, count)
        times = code.splat(factor, count)
        if order == 2:
            add(i, difference * times, count)
        else:
            # Last, where the difference is 0 or NaN: that.
            add(
                i,
                code.select(difference > 0.0, times, code.select(difference < 0.0, -1.0 * times, difference * 0.0)),
                count,
            )

    whole = m // NARROW * NARROW
    with code.loop(0, whole, NARROW) as i:
        change(i, NARROW)
    with code.loop(whole, m) as i:
        change(i, 0)


def _factor(code: Code, g: Value, distance: Value, order: float) -> Value:
    return code.select(distance == 0.0, 0.0, g / distance) if order == 2 else g


def _added_to(code: Code, row: Value, kind: str, sign: int = 1) -> Callable[[Value, Value, int], None]:
    """A function that adds to the elements of a row."""

    def add(i: Value, change: Value, count: int) -> None:
        old = code.load(kind, row, i, count)
        code.store(old + change if sign > 0 else old - change, row, i)

    return add


@generalized("(n,m)->(k)", vectorize=False)
def row_pdist(code: Code, operands: list[Operand], sizes: list[Value], letter: str, order: float) -> None:
    """Matrices with contiguous rows → the distances of their pairs, which are given as `out`."""
    x, out = operands
    n, m, _ = sizes
    k, zero = code.variable("i64", 0), code.value(0, "i64")
    with code.loop(0, n) as i, code.loop(i + 1, n) as j:
        distance = _distance(code, x.place(code, i, zero), x.place(code, j, zero), m, KINDS[letter], order)
        code.store(distance, out.place(code, k.get()))
        k.add(1)


@generalized("(m,n)->(k)", vectorize=False)
def row_pdist_columns(code: Code, operands: list[Operand], sizes: list[Value], letter: str, order: float) -> None:
    """Contiguous transposed matrices → as `row_pdist`, contiguous: NARROW pairs at a time, for few columns."""
    x, out = operands
    m, n, _ = sizes
    kind, zero = KINDS[letter], code.value(0, "i64")
    place, buffer = code.variable("ptr", out.address), code.array(kind, NARROW)

    def block(i: Value, j: Value, read: Callable[[Value], Value], count: int = NARROW) -> Value:
        total = code.variable(f"<{count} x {kind}>", 0.0)
        with code.loop(0, m) as c:
            one = code.splat(code.load(kind, x.place(code, c, i)), count)
            total.set(_part(code, total.get(), one - read(x.place(code, c, j)), order))
        return code.call("sqrt", total.get()) if order == 2 else total.get()

    with code.loop(0, n) as i:
        whole = i + 1
        for count in (WIDE, NARROW):
            begin, whole = whole, whole + (n - whole) // count * count
            with code.loop(begin, whole, count) as j:
                read = functools.partial(code.load, kind, index=0, count=count)
                code.store(block(i, j, read, count), place.get())
                place.set(code.at(kind, place.get(), count))
        rest = n - whole
        with code.when(rest > zero):
            code.store(block(i, whole, lambda at, rest=rest: code.load_first(kind, at, rest, NARROW)), buffer)
            with code.loop(0, rest) as k:
                code.store(code.load(kind, buffer, k), place.get(), k)
            place.set(code.at(kind, place.get(), rest))


@generalized("(n,m),(k),(k)->(n,m)", vectorize=False)
def row_pdist_gradient(code: Code, operands: list[Operand], sizes: list[Value], letter: str, order: float) -> None:
    """Matrices, the distances' gradients, the distances; matrices and result have contiguous rows."""
    x, g, distances, out = operands
    n, m, _ = sizes
    kind, k, zero = KINDS[letter], code.variable("i64", 0), code.value(0, "i64")
    with code.loop(0, n) as i:
        code.clear(out.place(code, i, zero), m * SIZES[kind])
    with code.loop(0, n) as i, code.loop(i + 1, n) as j:
        factor = _factor(code, *[code.load(kind, o.place(code, k.get())) for o in (g, distances)], order)
        a, b = (x.place(code, row, zero) for row in (i, j))
        to = _added_to(code, out.place(code, i, zero), kind), _added_to(code, out.place(code, j, zero), kind, -1)

        def add(i: Value, change: Value, count: int, to: tuple = to) -> None:
            for each in to:
                each(i, change, count)

        _spread(code, a, b, m, factor, order, add)
        k.add(1)


@generalized("(p,m),(r,m)->(p,r)", vectorize=False)
def row_cdist(code: Code, operands: list[Operand], sizes: list[Value], letter: str, order: float) -> None:
    """Two matrices with contiguous rows → the distances of each row of the one to each of the other.

    As in PyTorch, the largest difference is that of the numbers alone.
    """
    x, y, out = operands
    p, m, r = sizes
    zero = code.value(0, "i64")
    with code.loop(0, p) as i, code.loop(0, r) as j:
        rows = x.place(code, i, zero), y.place(code, j, zero)
        distance = _distance(code, *rows, m, KINDS[letter], order, without_nan=math.isinf(order))
        code.store(distance, out.place(code, i, j))


@generalized("(p,m),(r,m),(p,r),(p,r)->(p,m)", vectorize=False)
def row_cdist_gradient(code: Code, operands: list[Operand], sizes: list[Value], letter: str, order: float) -> None:
    """As `row_cdist`, then the distances' gradients and the distances → the gradient in the first matrix."""
    x, y, g, distances, out = operands
    p, m, r = sizes
    kind, zero = KINDS[letter], code.value(0, "i64")
    with code.loop(0, p) as i:
        code.clear(out.place(code, i, zero), m * SIZES[kind])
        with code.loop(0, r) as j:
            factor = _factor(code, *[code.load(kind, o.place(code, i, j)) for o in (g, distances)], order)
            rows = x.place(code, i, zero), y.place(code, j, zero)
            _spread(code, *rows, m, factor, order, _added_to(code, out.place(code, i, zero), kind))


def pdist(x: np.ndarray, p: float) -> np.ndarray:
    """The distances of all pairs of rows of a matrix."""
    n, letter = len(x), x.dtype.char
    out = np.empty(n * (n - 1) // 2, x.dtype)
    if x.shape[1] <= FEW_COLUMNS:
        row_pdist_columns(2 * letter, letter, p)(np.ascontiguousarray(x.T), out)
    else:
        row_pdist(2 * letter, letter, p)(np.ascontiguousarray(x), out)
    return out


def prepared_pdist(x: np.ndarray, p: float) -> Callable[[np.ndarray], np.ndarray]:
    """`pdist` of contiguous matrices of this shape; see `prepares`."""
    n, letter, kind, few = len(x), x.dtype.char, x.dtype, x.shape[1] <= FEW_COLUMNS
    code, count = (row_pdist_columns if few else row_pdist)(2 * letter, letter, p), n * (n - 1) // 2

    def distances(x: np.ndarray) -> np.ndarray:
        return code(np.ascontiguousarray(x.T) if few else x, np.empty(count, kind))

    return distances


def pdist_gradient(g: np.ndarray, x: np.ndarray, distances: np.ndarray, p: float) -> np.ndarray:
    """The gradient in the matrix."""
    letter = x.dtype.char
    return row_pdist_gradient(4 * letter, letter, p)(np.ascontiguousarray(x), g, distances)


def cdist(x: np.ndarray, y: np.ndarray, p: float) -> np.ndarray:
    """The distances of each row of x (*, P, M) to each of y (*, R, M)."""
    letter = x.dtype.char
    return row_cdist(3 * letter, letter, p)(np.ascontiguousarray(x), np.ascontiguousarray(y))


def cdist_gradient(g: np.ndarray, x: np.ndarray, y: np.ndarray, distances: np.ndarray, p: float) -> np.ndarray:
    """The gradient in x; of y that is the one with x and y exchanged, and `g` and `distances` transposed."""
    letter = x.dtype.char
    return row_cdist_gradient(5 * letter, letter, p)(np.ascontiguousarray(x), np.ascontiguousarray(y), g, distances)
