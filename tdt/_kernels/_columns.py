"""Sums and maxima over a dimension that is not the last one, for machine code: a vector holds elements of several columns.

The columns of an array (outer, n, inner) are computed `TILE` at a time, so that the cache holds them for a second pass. A
column is summed in the same parts, in the same order, as `_rows` sums a row: it has the same sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tdt._kernels._code import Code, Value
from tdt._kernels._rows import BLOCK, LANES, MANY, for_each, larger, load
from tdt._kernels._syntax import vector

TILE = 64  # columns of a unit of work
Body = Callable[[Value, "Value | None"], None]
Term = Callable[[Value, Value, "Value | None"], Value]  # of element c of the columns from i on, with a mask


class Columns(NamedTuple):
    """Some columns of an array (outer, n, inner).

    Attributes:
        n: elements of a column.
        inner: elements from one of a column to the next.
        count: columns, at most `TILE`.
        at: element 0 of the first column, counted from the array's first element.
        first: the first column, counted through all of the array.
    """

    n: Value
    inner: Value
    count: Value
    at: Value
    first: Value

    def each(self, code: Code, body: Body) -> None:
        """`body(i, mask)` for the vectors of columns from i on."""
        for_each(code, self.count, body)

    def line(self, code: Code, array: Value, c: Value) -> Value:
        """The address of element `c` of the first column."""
        return code.at("float", array, self.at + c * self.inner)


def columns_of(code: Code, unit: Value, n: Value, inner: Value) -> Columns:
    """The columns of a unit of work, of which each outer index has inner / TILE, rounded up."""
    tiles = (inner + (TILE - 1)) // TILE
    outer = unit // tiles
    start = (unit - outer * tiles) * TILE
    return Columns(n, inner, code.minimum(inner - start, TILE), outer * n * inner + start, outer * inner + start)


def maxima(code: Code, columns: Columns, x: Value, out: Value) -> None:
    """The largest element of each column that is not NaN; -inf where there is none."""
    columns.each(code, lambda i, _: code.store(code.value(-math.inf, vector("float", LANES)), out, i))
    with code.loop(0, columns.n) as c:
        line = columns.line(code, x, c)
        columns.each(
            code,
            lambda i, mask: code.store(
                larger(code, code.load("float", out, i, LANES), load(code, line, i, mask)), out, i
            ),
        )


def _join_parts(code: Code, columns: Columns, sums: Value, kind: str, count: Value | int, until: int) -> None:
    """Add the second half of the parts of `column_sums` to the first, until there are so many."""
    left = code.variable("i64", count)
    with code.forever() as leave:
        leave(left.get() <= until)
        half = left.get() >> 1
        left.set(half)
        with code.loop(0, half) as k:

            def join(i: Value, _: Value | None, k: Value = k) -> None:
                first, second = (code.load(kind, sums, part * TILE + i, LANES) for part in (k, k + half))
                code.store(first + second, sums, k * TILE + i)

            columns.each(code, join)


def column_sums(code: Code, columns: Columns, term: Term, out: Value, widths: Sequence[int] = (MANY, LANES),
                kind: str = "float") -> None:  # fmt: skip
    """The sum of `term` over each column in double precision, as `_rows.summed` has it of a row.

    Args:
        kind: of the terms.
        widths: as for `_rows.folded`.
    """
    n, most = columns.n, widths[0]
    sums = code.array(kind, most * TILE)
    zeros = code.value(0.0, vector(kind, LANES))

    def clear(count: Value | int) -> None:
        with code.loop(0, count) as k:
            columns.each(code, lambda i, _: code.store(zeros, sums, k * TILE + i))

    def add(start: Value, stop: Value, parts: int) -> None:
        with code.loop(start, stop) as c:
            place = ((c - start) & (parts - 1)) * TILE
            columns.each(
                code,
                lambda i, mask: code.store(code.load(kind, sums, place + i, LANES) + term(c, i, mask), sums, place + i),
            )

    used = code.value(LANES, "i64")  # parts that are not all 0: a power of two
    for power in (8, 4, 2, 1):
        used = code.select(n <= power, power, used)
    columns.each(code, lambda i, _: code.store(code.value(0.0, vector("double", LANES)), out, i))
    with code.loop(0, n, BLOCK) as start:
        stop = code.minimum(start + BLOCK, n)
        narrow = code.variable("i64", start)
        if most > LANES:
            with code.when(stop - start >= most):
                narrow.set(start + ((stop - start) & -most))
                clear(most)
                add(start, narrow.get(), most)
                _join_parts(code, columns, sums, kind, most, LANES)
        with code.when(narrow.get() == start):
            clear(used)
        add(narrow.get(), stop, LANES)
        _join_parts(code, columns, sums, kind, used, 1)
        columns.each(
            code,
            lambda i, _: code.store(
                code.load("double", out, i, LANES) + code.cast(code.load(kind, sums, i, LANES), "double"), out, i
            ),
        )
