"""Resampling in float32 on the CPU: a table of taps against rows, or against single numbers; two against pixels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._jit import jit
from tdt._kernels._pairs import turned
from tdt._kernels._pool import parallel
from tdt._kernels._rows import allocated, release
from tdt._kernels._syntax import vector

SIDE = 8  # rows that are resampled side by side
GRAIN = 1 << 15  # elements that a thread should at least have
ZERO = np.float32(0)


def resample(x: np.ndarray, table) -> np.ndarray:
    """Contiguous x (A, n, B) as (A, rows of the table, B)."""
    start, index, weight = table.start, table.index, _weights(table)
    outer, _, inner = x.shape
    count = table.count
    out = np.empty((outer, count, inner), np.float32)
    if inner > 1:
        parallel(_rows, outer * count, x, start, index, weight, out, grain=-(-GRAIN // inner))
    elif outer < SIDE:
        return resample_few(x, table)
    else:
        arrays, blocks = (x, start, index, weight, out, *x.shape[:2], count), -(-outer // SIDE)
        parallel(_across(table.each == 2), blocks, *arrays, grain=-(-GRAIN // (SIDE * count)))  # type: ignore[arg-type]
    return out


def resample_pixels(x: np.ndarray, down, across) -> np.ndarray:
    """Contiguous x (N, H, W, C) along both H and W in one pass, by tables that have one tap, or two, in every row."""
    height, width = down.count, across.count
    out = np.empty((x.shape[0], height, width, x.shape[3]), np.float32)
    tables = down.index, _weights(down), across.index, _weights(across)
    parallel(_pixels, x.shape[0] * height, x, *tables, down.each, out, grain=-(-GRAIN // (width * x.shape[3])))
    return out


def resample_few(x: np.ndarray, table) -> np.ndarray:
    """`resample` of few elements of float32 or float64."""
    return prepared_few(x, table)(x)


def prepared_few(x: np.ndarray, table) -> Callable[[np.ndarray], np.ndarray]:
    """`resample_few` of arrays of this shape; see `prepares`."""
    letter, start, index = x.dtype.char, table.start[:-1], table.index
    end = table.start[1:]
    weight = np.ones(index.shape, x.dtype) if table.weight is None else table.weight
    outer, n, inner = x.shape
    if letter == "f" and inner == 1 and outer >= SIDE:
        run = _across(table.each == 2).with_last(-(-outer // SIDE), outer, n, table.count)
        taken, shape = (table.start, index, weight), (outer, table.count, 1)

        def across(x: np.ndarray) -> np.ndarray:
            out = np.empty(shape, np.float32)
            run(x, *taken, out)
            return out

        return across
    code = _few(f"{letter}qqq{letter}{letter}", letter)
    return lambda x: code(x, start, end, index, weight)


@generalized("(n,b),(r),(r),(t),(t)->(r,b)")
def _few(code: Code, operands: list[Operand], sizes: list[Value], letter: str) -> None:
    """x, whose last dimension is contiguous, the first taps and ends of rows, contiguous places and weights of the taps.

    Products are added in the order of the taps; a row without one is 0.
    """
    x, start, end, index, weight, out = operands
    _, width, rows, _ = sizes
    kind, zero = {"f": "float", "d": "double"}[letter], code.value(0, "i64")

    def tap(t: Value) -> tuple[Value, Value]:
        return x.place(code, code.load("i64", index.address, t), zero), code.load(kind, weight.address, t)

    def single() -> None:
        with code.loop(0, rows) as i:
            total, first = code.variable(kind, 0.0), code.load("i64", start.place(code, i))
            with code.loop(first, code.load("i64", end.place(code, i))) as t:
                place, p = tap(t)
                value = code.load(kind, place) * p
                total.set(code.select(t == first, value, total.get() + value))
            code.store(total.get(), out.place(code, i, zero))

    def several() -> None:
        with code.loop(0, rows) as i:
            first, last = (code.load("i64", operand.place(code, i)) for operand in (start, end))
            _row(code, kind, width, first, last, tap, out.place(code, i, zero))

    code.choose(width == 1, single, several)


def _row(code: Code, kind: str, width: Value, first: Value, last: Value, tap: Callable[[Value], tuple[Value, Value]],
         target: Value) -> None:  # fmt: skip
    """A row of `_few` with several elements side by side."""

    def two() -> None:
        (one, p), (other, q) = tap(first), tap(first + 1)
        with code.loop(0, width) as j:
            code.store(code.load(kind, one, j) * p + code.load(kind, other, j) * q, target, j)

    def any_number() -> None:
        with code.loop(0, width) as j:
            code.store(code.value(0.0, kind), target, j)
        with code.loop(first, last) as t:
            row, q = tap(t)
            with code.loop(0, width) as j:
                product = code.load(kind, row, j) * q
                total = code.select(t == first, product, code.load(kind, target, j) + product)
                code.store(total, target, j)

    code.choose(last - first == 2, two, any_number)


@native("pppppqqq")
def _across(code: Code, first: Value, last: Value, arguments: list[Value], two: bool) -> None:
    """SIDE rows of x (rows, n) against a table, side by side in vectors: as the columns of a block that is turned.

    x, first taps of results and the end of the last ones, places, weights, out (rows, count); rows, n, count. The last block
    overlaps others. two: every result has two taps.
    """
    x, start, index, weight, out, rows, n, count = arguments
    (columns,) = allocated(code, n * SIDE)
    one, few = code.array("float", SIDE), range(SIDE)

    def tap(t: Value) -> Value:
        return code.load("float", columns, code.load("i64", index, t) * SIDE, SIDE) * code.splat(
            code.load("float", weight, t), SIDE
        )

    def result(i: Value) -> Value:
        begin = code.load("i64", start, i)
        if two:
            return tap(begin) + tap(begin + 1)
        total = code.variable(vector("float", SIDE), 0.0)
        with code.loop(begin, code.load("i64", start, i + 1)) as t:
            value = tap(t)
            total.set(code.select(t == begin, value, total.get() + value))
        return total.get()

    def turned_in(row: Value) -> None:
        with code.loop(0, n, SIDE) as at:
            j = code.minimum(at, n - SIDE)
            lines = turned(code, [code.load("float", x, (row + r) * n + j, SIDE) for r in few])
            for k, line in enumerate(lines):
                code.store(line, columns, (j + k) * SIDE)

    def taken_in(row: Value) -> None:
        with code.loop(0, n) as j:
            for r in few:
                code.store(code.load("float", x, (row + r) * n + j), columns, j * SIDE + r)

    def turned_out(row: Value) -> None:
        with code.loop(0, count, SIDE) as at:
            i = code.minimum(at, count - SIDE)
            for r, line in enumerate(turned(code, [result(i + k) for k in few])):
                code.store(line, out, (row + r) * count + i)

    def taken_out(row: Value) -> None:
        with code.loop(0, count) as i:
            code.store(result(i), one)
            for r in few:
                code.store(code.load("float", one, r), out, (row + r) * count + i)

    with code.loop(first, last) as block:
        row = code.minimum(block * SIDE, rows - SIDE)
        code.choose(n >= SIDE, lambda: turned_in(row), lambda: taken_in(row))
        code.choose(count >= SIDE, lambda: turned_out(row), lambda: taken_out(row))
    release(code, columns)


def _weights(table) -> np.ndarray:
    return np.ones(table.index.size, np.float32) if table.weight is None else table.weight


@jit
def _rows(first, last, x, start, index, weight, out):
    count = out.shape[1]
    for r in range(first, last):
        a, i = r // count, r % count
        target, at, end = out[a, i], start[i], start[i + 1]
        if at == end:
            for b in range(target.size):
                target[b] = ZERO
        elif end - at == 2:
            one, two, p, q = x[a, index[at]], x[a, index[at + 1]], weight[at], weight[at + 1]
            for b in range(target.size):
                target[b] = p * one[b] + q * two[b]
        else:
            one, p = x[a, index[at]], weight[at]
            for b in range(target.size):
                target[b] = p * one[b]
            for k in range(at + 1, end):
                two, q = x[a, index[k]], weight[k]
                for b in range(target.size):
                    target[b] += q * two[b]


@jit
def _pixels(first, last, x, index, weight, index_across, weight_across, each, out):
    height = out.shape[1]
    for r in range(first, last):
        n, i = r // height, r % height
        if each == 1:
            row, p = x[n, index[i]], weight[i]
            for j in range(out.shape[2]):
                target, source, q = out[n, i, j], row[index_across[j]], p * weight_across[j]
                for c in range(target.size):
                    target[c] = q * source[c]
        else:
            row, other, p, q = x[n, index[2 * i]], x[n, index[2 * i + 1]], weight[2 * i], weight[2 * i + 1]
            for j in range(out.shape[2]):
                left, right, s, t = (
                    index_across[2 * j],
                    index_across[2 * j + 1],
                    weight_across[2 * j],
                    weight_across[2 * j + 1],
                )
                target, a, b, c, d = out[n, i, j], row[left], row[right], other[left], other[right]
                for k in range(target.size):
                    target[k] = p * (s * a[k] + t * b[k]) + q * (s * c[k] + t * d[k])
