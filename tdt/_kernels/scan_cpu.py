"""Running sums, products and extremes along a dimension, in one pass, on all threads.

Sums and products are kept in double precision, and each result is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._fold import STORED, read, write
from tdt._kernels._pool import parallel
from tdt._kernels._syntax import vector

UNITS = 1 << 13  # elements that a block of the pool's work has at least
WIDTH = 16  # columns of a tile
TOGETHER = 4  # rows that are added along at the same time, since an addition waits for the one before


def _step(code: Code, how: str, so_far: Value, x: Value) -> Value:
    return so_far * x if how == "prod" else so_far + x


def running_type(how: str, letter: str) -> str:
    """The type of the running results."""
    if how == "narrow":
        return {"f": "float", "d": "double"}[letter]
    return "double" if letter in "fdeE" else "i64"


@native("ppqqqqq")
def _rows(code: Code, first: Value, last: Value, arguments: list[Value], how: str, letter: str) -> None:
    """x, out, n, rows, each (groups of rows of a block), whether backwards, unused. A group is `TOGETHER` rows."""
    x, out, n, rows, each, backwards, _ = arguments
    wide, start = running_type(how, letter), int(how == "prod")
    groups = (rows + (TOGETHER - 1)) // TOGETHER
    with code.loop(first * each, code.minimum(last * each, groups)) as group:
        row = group * TOGETHER

        def several(count: int, row: Value) -> None:
            totals = [code.variable(wide, start) for _ in range(count)]
            with code.loop(0, n) as k:
                i = code.select(backwards != 0, n - 1 - k, k)
                for r, total in enumerate(totals):
                    place = (row + r) * n + i
                    total.set(_step(code, how, total.get(), code.cast(read(code, letter, x, place), wide)))
                    write(code, letter, total.get(), out, place)

        def single() -> None:
            with code.loop(row, rows) as one:
                several(1, one)

        code.choose(row + TOGETHER <= rows, lambda: several(TOGETHER, row), single)


@native("ppqqqqq")
def _columns(code: Code, first: Value, last: Value, arguments: list[Value], how: str, letter: str) -> None:
    """x, out, n, B, units (tiles of all A), whether backwards, tiles of an A."""
    x, out, n, width, units, backwards, tiles = arguments
    wide, start = running_type(how, letter), int(how == "prod")
    with code.loop(first, code.minimum(last, units)) as unit:
        outer = unit // tiles
        left = (unit - outer * tiles) * WIDTH
        base = outer * n * width + left

        def tile(count: int, base: Value) -> None:
            total = code.variable(vector(wide, count), start)
            with code.loop(0, n) as k:
                place = base + code.select(backwards != 0, n - 1 - k, k) * width
                total.set(_step(code, how, total.get(), code.cast(read(code, letter, x, place, count), wide)))
                write(code, letter, total.get(), out, place)

        def narrower(count: int, base: Value, columns: Value) -> None:
            """Columns that fill no tile: those of its half, if they are so many, and what is left."""

            def half() -> None:
                tile(count if count > 1 else 0, base)

            if count == 1:
                with code.when(columns > 0):
                    half()
            else:
                fills = columns >= count
                with code.when(fills):
                    half()
                done = code.select(fills, code.value(count, "i64"), 0)
                narrower(count // 2, base + done, columns - done)

        code.choose(left + WIDTH <= width, lambda: tile(WIDTH, base), lambda: narrower(WIDTH // 2, base, width - left))


@native("pppqqqq")
def _extremes(code: Code, first: Value, last: Value, arguments: list[Value], how: str, letter: str) -> None:
    """x, values, indices, n, B, columns (A · B), each (columns of a block); `TOGETHER` columns at the same time."""
    x, values, indices, n, width, columns, each = arguments

    def several(count: int, column: Value) -> None:
        bases, bests = [], []
        for r in range(count):
            outer = (column + r) // width
            bases.append(outer * n * width + (column + r - outer * width))
            value = read(code, letter, x, bases[r])
            bests.append(code.variable(value.kind, value))
        places = [code.variable("i64", 0) for _ in range(count)]
        with code.loop(0, n) as k:
            for base, best, at in zip(bases, bests, places, strict=True):
                value, old = read(code, letter, x, base + k * width), best.get()
                better = is_better(how, value, old)
                best.set(code.select(better, value, old))
                at.set(code.select(better, k, at.get()))
                write(code, letter, best.get(), values, base + k * width)
                code.store(at.get(), indices, base + k * width)

    stop = code.minimum(last * each, columns)
    with code.loop(first * each, stop, TOGETHER) as column:

        def single() -> None:
            with code.loop(column, stop) as one:
                several(1, one)

        code.choose(column + TOGETHER <= stop, lambda: several(TOGETHER, column), single)


@native("pppqqq")
def _row_extremes(code: Code, first: Value, last: Value, arguments: list[Value], how: str, letter: str) -> None:
    """x, values, indices, n, rows, each (rows of a block)."""
    x, values, indices, n, rows, each = arguments
    kind = STORED[letter][0]
    with code.loop(first * each, code.minimum(last * each, rows)) as row:
        places = (code.at(k, a, row * n) for k, a in ((kind, x), (kind, values), ("i64", indices)))
        extremes_of_row(code, how, letter, *places, n)


def is_better(how: str, value: Value, old: Value) -> Value:
    """Whether a value is the new "max" or "min" behind an old one."""
    return (value >= old if how == "max" else value <= old) | (value != value)


def extremes_one_by_one(
    code: Code, how: str, letter: str, n: Value, places: Callable[[Value], Sequence[Value]]
) -> None:
    """The running extremes of a row and their indices. places: where element k of the row, the extremes and indices lies."""
    first = read(code, letter, places(code.value(0, "i64"))[0], 0)
    best, at = code.variable(first.kind, first), code.variable("i64", 0)
    with code.loop(0, n) as k:
        x, values, indices = places(k)
        value, old = read(code, letter, x, 0), best.get()
        better = is_better(how, value, old)
        best.set(code.select(better, value, old))
        at.set(code.select(better, k, at.get()))
        write(code, letter, best.get(), values, 0)
        code.store(at.get(), indices)


def extremes_of_row(
    code: Code, how: str, letter: str, x: Value, values: Value, indices: Value, n: Value, width: int = WIDTH
) -> None:
    """The running extremes of a contiguous row and their indices, `width` at a time, or fewer if the row is shorter.

    The extremes within a vector are found in log2(width) steps; the last vector overlaps the one before.
    """

    def vectors() -> None:
        kind = vector(STORED[letter][1], width)
        best, at = code.variable(kind), code.variable(vector("i64", width))

        def set_best(place: Value) -> None:
            best.set(code.splat(read(code, letter, values, place), width))
            at.set(code.splat(code.load("i64", indices, place), width))

        def find(k: Value) -> None:
            value = read(code, letter, x, k, width)
            better = is_better(how, value, best.get())
            found = code.new(f"i{width}", f"bitcast {better.kind} {better.name} to i{width}")
            code.choose(found == 0, lambda: put(k, best.get(), at.get()), lambda: find_better(k, value))

        def put(k: Value, value: Value, place: Value) -> None:
            write(code, letter, value, values, k)
            code.store(place, indices, k)

        def find_better(k: Value, value: Value) -> None:
            place, step = code.cast(code.counting(width), "i32"), 1
            while step < width:
                others = [i - step if i >= step else i for i in range(width)]
                before, its_place = (code.shuffle(each, each, others) for each in (value, place))
                is_best = is_better(how, value, before)
                value, place = code.select(is_best, value, before), code.select(is_best, place, its_place)
                step *= 2
            is_best = is_better(how, value, best.get())
            value = code.select(is_best, value, best.get())
            place = code.select(is_best, code.cast(place, "i64") + code.splat(k, width), at.get())
            put(k, value, place)
            best.set(code.shuffle(value, value, [width - 1] * width))
            at.set(code.shuffle(place, place, [width - 1] * width))

        zero = code.value(0, "i64")
        write(code, letter, read(code, letter, x, zero), values, zero)
        code.store(zero, indices)
        set_best(zero)
        last = n - width
        with code.loop(0, last, width) as k:
            find(k)
        with code.when(last > 0):
            set_best(last - 1)
        find(last)

    def narrower() -> None:
        extremes_of_row(code, how, letter, x, values, indices, n, width // 4)

    def singly() -> None:
        kind = STORED[letter][0]
        arrays = (kind, x), (kind, values), ("i64", indices)
        extremes_one_by_one(code, how, letter, n, lambda k: [code.at(each, array, k) for each, array in arrays])

    if width < 4:
        singly()
    else:
        code.choose(n >= width, vectors, narrower)


def scan(how: str, x: np.ndarray, dim: int, letter: str, backwards: bool = False) -> np.ndarray:
    """The running sums or products ("sum", "prod") of a contiguous x along `dim`; "narrow": sums in x's own type."""
    out = np.empty_like(x)
    n, width = x.shape[dim], math.prod(x.shape[dim + 1 :])
    outer = math.prod(x.shape[:dim])
    if width == 1:
        each = max(1, UNITS // (n * TOGETHER))
        groups = -(-outer // TOGETHER)
        blocks = -(-groups // each)
        parallel(_rows(how, letter), blocks, x, out, n, outer, each, int(backwards), 0, grain=2)  # type: ignore[arg-type]
    else:
        tiles = -(-width // WIDTH)
        grain = max(1, UNITS // (n * WIDTH))
        args = x, out, n, width, outer * tiles, int(backwards), tiles
        parallel(_columns(how, letter), outer * tiles, *args, grain=grain)  # type: ignore[arg-type]
    return out


def extremes(how: str, x: np.ndarray, dim: int, letter: str) -> tuple[np.ndarray, np.ndarray]:
    """The largest or smallest element ("max", "min") so far of a contiguous x along `dim`, and its index; nan persists."""
    values, indices = np.empty_like(x), np.empty(x.shape, np.int64)
    n, width = x.shape[dim], math.prod(x.shape[dim + 1 :])
    columns = math.prod(x.shape[:dim]) * width
    if width == 1:
        each = max(1, UNITS // n)
        parallel(_row_extremes(how, letter), -(-columns // each), x, values, indices, n, columns, each, grain=2)  # type: ignore[arg-type]
        return values, indices
    each = max(1, UNITS // (n * TOGETHER)) * TOGETHER
    args = x, values, indices, n, width, columns, each
    parallel(_extremes(how, letter), -(-columns // each), *args, grain=2)  # type: ignore[arg-type]
    return values, indices
