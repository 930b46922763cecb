"""Images and volumes with borders around them, and the gradient: one call for all planes, whose rows come from a table.

A plane is what lies behind the dimensions that have no border. A row of it is copied from a row of the source, by the table, or
is filled; of the cells at its ends the table says the same.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._code import SIZES, Code, Value, native
from tdt._kernels._gufunc import Operand, generalized
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS

KINDS = {"f": "float", "d": "double", "i": "i32", "l": "i64", "q": "i64"}
UNITS = 1 << 13  # elements that a block of the pool's work has at least
VECTOR = 32  # bytes
HEADER = ("plane", "source", "target", "rows", "left", "count", "offset", "right")
GRADIENT_HEADER = ("plane", "source", "target", "rows", "left", "borders")

Places = dict[int, Callable[[int, int, int], np.ndarray]]


def _rows(code: Code, table: Value, header: Sequence[str], first: Value, last: Value,
          body: Callable[[Any, Value, Value, Value], None]) -> None:  # fmt: skip
    """`body(sizes, plane, row, unit)` for the rows [first, last) of all planes."""
    sizes = code.words(table, header)
    plane = code.variable("i64", first // sizes.rows)
    row = code.variable("i64", first - plane.get() * sizes.rows)
    with code.loop(first, last) as unit:
        body(sizes, plane.get(), row.get(), unit)
        on = row.get() + 1
        ended = on == sizes.rows
        row.set(code.select(ended, 0, on))
        plane.set(code.select(ended, plane.get() + 1, plane.get()))


def _copied(code: Code, kind: str, source: Value, target: Value, count: Value) -> None:
    def write(at: Value, vectors: int, width: int) -> None:
        code.store(code.load(kind, source, at, width), target, at)

    code.vectors(count, VECTOR // SIZES[kind], write, narrows=True)


def _filled(code: Code, kind: str, value: Value, target: Value, count: Value) -> None:
    code.vectors(
        count,
        VECTOR // SIZES[kind],
        lambda at, _, width: code.store(code.splat(value, width), target, at),
        narrows=True,
    )


def _bordered(code: Code, operands: Sequence[Value], first: Value, last: Value, kind: str) -> None:
    """x, table, value, out: see `_table`."""
    x, table, number, out = operands
    value = code.load(kind, number)

    def row(sizes: Any, plane: Value, row: Value, unit: Value) -> None:
        line = code.at(kind, out, unit * sizes.target)
        origin = code.load("i64", table, row + len(HEADER))

        def copy() -> None:
            source = code.at(kind, x, plane * sizes.plane + origin * sizes.source)
            columns = code.at("i64", table, sizes.rows + len(HEADER))
            _copied(code, kind, code.at(kind, source, sizes.offset), code.at(kind, line, sizes.left), sizes.count)
            for start, number, place in ((code.value(0, "i64"), sizes.left, code.value(0, "i64")),
                                         (sizes.left, sizes.right, sizes.left + sizes.count)):  # fmt: skip
                with code.loop(0, number) as k:
                    column = code.load("i64", columns, start + k)
                    inside = code.select(column < 0, 0, column)
                    code.store(code.select(column < 0, value, code.load(kind, source, inside)), line, place + k)

        code.choose(origin < 0, lambda: _filled(code, kind, value, line, sizes.target), copy)

    _rows(code, table, HEADER, first, last, row)


def _gradient(code: Code, operands: Sequence[Value], first: Value, last: Value, kind: str) -> None:
    """g, table, out: see `_gradient_table`. Rows are added up first, then the cells at their ends."""
    g, table, out = operands

    def row(sizes: Any, plane: Value, row: Value, unit: Value) -> None:
        line = code.at(kind, out, unit * sizes.target)
        starts = code.at("i64", table, len(GRADIENT_HEADER))
        cells = code.at("i64", starts, sizes.rows + 1)
        origins = code.at("i64", cells, sizes.borders * 2)
        begin, end = code.load("i64", starts, row), code.load("i64", starts, row + 1)

        def source(k: Value) -> Value:
            return code.at(kind, g, plane * sizes.plane + code.load("i64", origins, k) * sizes.source)

        _copied(code, kind, code.at(kind, source(begin), sizes.left), line, sizes.target)
        with code.loop(begin + 1, end) as k:
            further = code.at(kind, source(k), sizes.left)

            def add(at: Value, vectors: int, width: int, further: Value = further) -> None:
                code.store(code.load(kind, line, at, width) + code.load(kind, further, at, width), line, at)

            code.vectors(sizes.target, VECTOR // SIZES[kind], add, once=True)
        with code.loop(0, sizes.borders) as k:
            target, column = (code.load("i64", cells, k * 2 + each) for each in (0, 1))
            total = code.variable(kind, code.load(kind, source(begin), column))
            with code.loop(begin + 1, end) as other:
                total.add(code.load(kind, source(other), column))
            code.store(code.load(kind, line, target) + total.get(), line, target)

    _rows(code, table, GRADIENT_HEADER, first, last, row)


@generalized("(p),(t),()->(q)")
def _bordered_at_once(code: Code, operands: list[Operand], sizes: list[Value], kind: str) -> None:
    rows = sizes[2] // code.load("i64", operands[1].address, HEADER.index("target"))
    _bordered(code, [each.address for each in operands], code.value(0, "i64"), rows, kind)


@generalized("(p),(t)->(q)")
def _gradient_at_once(code: Code, operands: list[Operand], sizes: list[Value], kind: str) -> None:
    rows = sizes[2] // code.load("i64", operands[1].address, GRADIENT_HEADER.index("target"))
    _gradient(code, [each.address for each in operands], code.value(0, "i64"), rows, kind)


@native("ppppqq")
def _bordered_by_pool(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """The operands, all rows, those of a block."""
    *operands, rows, each = arguments
    _bordered(code, operands, first * each, code.minimum(last * each, rows), kind)


@native("pppqq")
def _gradient_by_pool(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    *operands, rows, each = arguments
    _gradient(code, operands, first * each, code.minimum(last * each, rows), kind)


def _split(before: tuple, after: tuple) -> tuple[int, int]:
    """The first dimension that has a border, and the one from which on those of a row begin."""
    changed = [d for d, sides in enumerate(zip(before, after, strict=True)) if any(sides)]
    first, last = (changed[0], changed[-1]) if changed else (len(before) - 1, len(before) - 1)
    return first, last if last == len(before) - 1 else last + 1


def _sizes(shape: tuple, before: tuple, after: tuple) -> tuple[int, ...]:
    return tuple([n + b + a for n, b, a in zip(shape, before, after, strict=True)])


@functools.lru_cache(256)
def _table(shape: tuple, before: tuple, after: tuple, places: Callable[[int, int, int], np.ndarray]) -> np.ndarray:
    """The words of `HEADER`, a row's place in the source or -1, for each row of a plane, and the same for cells at its ends.

    Args:
        places: of the cells along a dimension of size n, with so many before and after: in the source, -1 for none.
    """
    first, inner = _split(before, after)
    width = math.prod(shape[inner:])
    rows = np.zeros(1, np.int64)
    for d in range(first, inner):
        along = places(shape[d], before[d], after[d])
        rows = np.where((rows[:, None] < 0) | (along < 0), -1, rows[:, None] * shape[d] + along).reshape(-1)
    b, a = (before[inner], after[inner]) if inner == len(shape) - 1 else (0, 0)
    left, right, offset = max(b, 0), max(a, 0), max(-b, 0)
    count = width - offset - max(-a, 0)
    columns = places(width, b, a) if left or right else np.zeros(0, np.int64)
    ends = np.concatenate([columns[:left], columns[len(columns) - right :]])
    header = (math.prod(shape[first:]), width, left + count + right, len(rows), left, count, offset, right)
    return np.concatenate([np.array(header), rows, ends]).astype(np.int64)


@functools.lru_cache(256)
def _gradient_table(
    shape: tuple, before: tuple, after: tuple, places: Callable[[int, int, int], np.ndarray]
) -> np.ndarray:
    """The words of `GRADIENT_HEADER`, where the rows of each row begin, pairs (cell, column added to it), the rows."""
    first, inner = _split(before, after)
    width = math.prod(shape[inner:])
    b, a = (before[inner], after[inner]) if inner == len(shape) - 1 else (0, 0)
    lists = _sources(shape[first], before[first], after[first], places) if first < inner else [[0]]
    cells = [(cell, column) for column, cell in _border(width, b, a, places)]
    starts = [0, *itertools.accumulate(map(len, lists))]
    count = math.prod(_sizes(shape, before, after)[first:])
    header = (count, width + b + a, width, len(lists), b, len(cells))
    return np.array([*header, *starts, *itertools.chain(*cells), *itertools.chain(*lists)], np.int64)


def _border(n: int, before: int, after: int, places: Callable[[int, int, int], np.ndarray]) -> list[tuple[int, int]]:
    """(place in the result, place in the source) of the cells of a border."""
    along = places(n, before, after)
    return [(k, int(along[k])) for k in (*range(before), *range(before + n, before + n + after))]


def _sources(n: int, before: int, after: int, places: Callable[[int, int, int], np.ndarray]) -> list[list[int]]:
    """The places in the result that have the value of each place of the source, its own first."""
    found = [[before + k] for k in range(n)]
    for place, source in _border(n, before, after, places):
        found[source].append(place)
    return found


def prepared(x: np.ndarray, before: tuple, after: tuple, places: Callable, value: Any = 0) -> Callable | None:
    """A function that gives contiguous arrays such as x with a border of `value`, or with cells of their own; None for others."""
    shape = _sizes(x.shape, before, after)
    if not _fits(x, KINDS) or not math.prod(shape):
        return None
    kind, dtype, table = KINDS[x.dtype.char], x.dtype, _table(x.shape, before, after, places)
    number, count = np.zeros((), dtype), math.prod(shape)
    if any(n > 0 for n in (*before, *after)):
        number[...] = value
    if count < THREADS.elementwise:
        letter = dtype.char
        code = _bordered_at_once(f"{letter}q{letter}{letter}", kind)

        def at_once(x: np.ndarray) -> np.ndarray:
            out = np.empty(shape, dtype)
            code(x.reshape(-1), table, number, out.reshape(-1))
            return out

        return at_once

    def by_pool(x: np.ndarray) -> np.ndarray:
        out = np.empty(shape, dtype)
        _on_threads(_bordered_by_pool(kind), (x, table, number, out), count, int(table[2]))
        return out

    return by_pool


def prepared_gradient(g: np.ndarray, shape: tuple, before: tuple, after: tuple, places: Callable) -> Callable | None:
    """A function that gives the gradient of arrays of a shape from that of arrays with borders; None for others.

    For borders of one dimension, or of the last two.
    """
    first, inner = _split(before, after)
    if not _fits(g, "fd") or inner - first > 1 or min(before + after) < 0 or not math.prod(shape):
        return None
    kind, dtype, table = KINDS[g.dtype.char], g.dtype, _gradient_table(shape, before, after, places)
    count = math.prod(shape)
    if max(count, g.size) < THREADS.elementwise:
        code = _gradient_at_once(f"{dtype.char}q{dtype.char}", kind)

        def at_once(g: np.ndarray) -> np.ndarray:
            out = np.empty(shape, dtype)
            code(g.reshape(-1), table, out.reshape(-1))
            return out

        return at_once

    def by_pool(g: np.ndarray) -> np.ndarray:
        out = np.empty(shape, dtype)
        _on_threads(_gradient_by_pool(kind), (g, table, out), count, int(table[2]))
        return out

    return by_pool


def _fits(x: np.ndarray, letters: Any) -> bool:
    return x.dtype.char in letters and x.ndim > 0 and x.size > 0 and x.flags.c_contiguous


def _on_threads(kernel: Any, arrays: tuple, count: int, width: int) -> None:
    each = max(1, UNITS // width)
    rows = count // width
    parallel(kernel, -(-rows // each), *arrays, rows, each, grain=2)
