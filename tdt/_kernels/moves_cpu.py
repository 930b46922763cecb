"""Copies of elements in another order, on all threads: reversed, repeated, joined rows; triangles of matrices."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._code import SIZES, Code, Value, Variable, native
from tdt._kernels._launches import WATCH
from tdt._kernels._native import vector_width
from tdt._kernels._pairs import turned
from tdt._kernels._pool import parallel
from tdt._kernels._stream import stream_from

UNITS = 1 << 14  # bytes that a block of the pool's work has at least
VECTOR = 32  # bytes of a vector
UNROLLED = 4  # vectors in a round of the loop
LEAST_STREAMED = 1 << 10  # bytes of a row that is written past the cache
LINE, AHEAD = 64, 8  # bytes of a line of the cache, and lines of the next row that are loaded while one is copied
MANY_ROWS = 64  # rows of a result that is joined row by row
SHORT, LONG = 64, 1 << 11  # bytes of the rows of its parts, at least and, of large results, at most
STRIP = 1 << 10  # columns of a matrix that is turned, whose lines in the target stay in the cache until they are full
KINDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


@native("qq" + "q" * 13)
def _copy(code: Code, first: Value, last: Value, arguments: list[Value], kind: str, how: str, streamed: bool) -> None:
    """Addresses of source and target, and how many bytes from there a copy begins; four sizes; three strides of the source and
    three of the target, in bytes; rows of a block. A row is the innermost dimension, contiguous in the target, and in the source
    as `how` says. streamed: past the cache.
    """
    source, target, from_source, from_target, n0, n1, n2, n3, s0, s1, s2, t0, t1, t2, each = arguments
    source, target = source + from_source, target + from_target
    many = 4 * vector_width() // SIZES[kind]
    begin = first * each
    upper = begin // n2
    outer = upper // n1
    places = [code.variable("i64", place) for place in (outer, upper - outer * n1, begin - upper * n2)]
    with code.loop(begin, code.minimum(last * each, n0 * n1 * n2)):
        i, j, k = (place.get() for place in places)
        x = code.cast(source + i * s0 + j * s1 + k * s2, "ptr")
        out = code.cast(target + i * t0 + j * t1 + k * t2, "ptr")
        one = code.load(kind, x)

        def write(e: Value, vectors: int, width: int, streamed: bool = False) -> None:
            places = [e + u * width for u in range(vectors)]
            if how == "repeated":
                values = [code.splat(one, width)] * vectors
            elif how == "alike" or not width:
                values = [code.load(kind, x, 0 - p if how == "reversed" else p, width) for p in places]
            else:  # the address is that of the last element in memory
                values = [code.load(kind, x, 1 - width - p, width) for p in places]
                values = [code.shuffle(value, value, tuple(reversed(range(width)))) for value in values]
            for place, value in zip(places, values, strict=True):
                code.store(value, out, place, streamed=streamed)

        if streamed:  # a row before the processor would begin to
            for line in range(AHEAD):
                code.prefetch(code.cast(x, "i64") + s2 + (-LINE if how == "reversed" else LINE) * line)
        misplaced = (code.cast(out, "i64") // SIZES[kind]) & (many - 1)
        middle = functools.partial(write, streamed=True) if streamed else None
        code.vectors(n3, many, write, middle=middle, misplaced=misplaced, unrolled=UNROLLED, narrows=True)
        _advance(code, places, (n1, n2))
    if streamed:
        code.end_streams()


def _advance(code: Code, places: list[Variable], counts: tuple[Value, Value]) -> None:
    """Go on to the next row: `places` in three dimensions, the last two of these sizes."""
    i, j, k = places
    n1, n2 = counts
    k.add(1)
    with code.when(k.get() == n2):
        k.set(0)
        j.add(1)
        with code.when(j.get() == n1):
            j.set(0)
            i.add(1)


@functools.lru_cache(1024)
def _sizes(shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...], itemsize: int) -> tuple | None:
    """Where `_copy` begins in source and target, its words behind these addresses, its blocks, and how the source's rows lie.

    None where it does not apply. Rows are read in the order of memory, which the processor reads ahead, and if they are written
    in the other one.
    """
    dims = sorted([d for d in zip(to, strides, shape, strict=True) if d[2] != 1], key=lambda d: -abs(d[0]))
    if not dims or dims[-1][0] != itemsize or any(d[0] <= 0 for d in dims):
        return None
    how = {itemsize: "alike", 0: "repeated", -itemsize: "reversed"}.get(dims[-1][1])
    if how is None:
        return None
    begins = [0, 0]
    for k, (t, s, n) in enumerate(dims[:-1]):
        if s < 0:
            begins[0], begins[1], dims[k] = begins[0] + s * (n - 1), begins[1] + t * (n - 1), (-t, -s, n)
    joined = [list(dims[0])]
    for t, s, n in dims[1:]:
        last = joined[-1]
        if last[0] == t * n and last[1] == s * n:
            joined[-1] = [t, s, last[2] * n]
        else:
            joined.append([t, s, n])
    if len(joined) > 4:
        return None
    joined = [[0, 0, 1]] * (4 - len(joined)) + joined
    n3 = joined[-1][2]
    rows = math.prod(d[2] for d in joined[:3])
    if rows == 1 and how != "reversed" and n3 * itemsize >= 4 * UNITS:  # one long row is cut
        parts = n3 * itemsize // UNITS
        while n3 % parts:
            parts -= 1
        n3, rows = n3 // parts, parts
        joined[2] = [n3 * itemsize, 0 if how == "repeated" else n3 * itemsize, parts]
    each = max(1, UNITS // (n3 * itemsize))
    words = (*(d[2] for d in joined[:3]), n3, *(d[1] for d in joined[:3]), *(d[0] for d in joined[:3]), each)
    return (*begins,), words, -(-rows // each), how


@native("qq" + "q" * 14)
def _turn(code: Code, first: Value, last: Value, arguments: list[Value], kind: str, tile: int) -> None:
    """Addresses of source and target; two outer sizes; the columns and rows of matrices that are turned; strides of the source
    and of the target in bytes, both outer ones and that between rows; elements of a strip; strips of a matrix, blocks of a
    strip; unused.

    A matrix is turned in strips of its columns, which become rows of the target, and a strip in blocks of `tile` rows.
    """
    source, target, _, n1, columns, rows, s0, s1, row_step, t0, t1, column_step, strip, strips, blocks, _ = arguments
    size = SIZES[kind]
    with code.loop(first, last) as number:
        upper = number // blocks
        outer = upper // strips
        i = outer // n1
        j = outer - i * n1
        row = code.minimum((number - upper * blocks) * tile, rows - tile)
        x = source + i * s0 + j * s1 + row * row_step
        out = target + i * t0 + j * t1 + row * size
        left = (upper - outer * strips) * strip
        right = code.minimum(left + strip, columns)
        with code.loop(left, right, tile) as at:
            column = code.minimum(at, columns - tile)  # the last block overlaps the one before
            lines = [code.cast(x + (row_step * k + column * size), "ptr") for k in range(tile)]
            for k, line in enumerate(turned(code, [code.load(kind, line, 0, tile) for line in lines])):
                code.store(line, code.cast(out + (column + k) * column_step, "ptr"))


@functools.lru_cache(1024)
def _turned_sizes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple | None:
    """The words of `_turn` behind the addresses, its blocks, its tile and a thread's blocks; None where it does not apply."""
    dims: list[tuple[int, int, int]] = []  # size, strides of the source and of the target
    end = math.prod(shape) * itemsize
    for n, s in zip(shape, strides, strict=True):
        end //= n
        if n != 1:
            joins = dims and dims[-1][1] == s * n
            dims.append((dims.pop()[0] * n if joins else n, s, end))
    inner = [d for d in dims[:-1] if d[1] == itemsize]
    if not 2 <= len(dims) <= 4 or len(inner) != 1 or dims[-1][1] == itemsize:
        return None
    rows, row_step, _ = dims[-1]
    columns, _, column_step = inner[0]
    tile = next((t for t in (16, 8, 4) if t <= min(rows, columns) and t * itemsize <= 4 * vector_width()), 0)
    if not tile:
        return None
    outer = [d for d in dims[:-1] if d is not inner[0]]
    outer = [(1, 0, 0)] * (2 - len(outer)) + outer
    (n0, s0, t0), (n1, s1, t1) = outer
    strips, blocks = -(-columns // STRIP), -(-rows // tile)
    words = n0, n1, columns, rows, s0, s1, row_step, t0, t1, column_step, STRIP, strips, blocks, 0
    return words, n0 * n1 * strips * blocks, tile, max(1, UNITS // (min(columns, STRIP) * tile * itemsize))


def contiguous_copy(x: np.ndarray) -> np.ndarray | None:
    """A contiguous copy of x, whose rows lie across in memory, by a kernel; None where it has none."""
    found = _turned_sizes(x.shape, x.strides, x.itemsize)
    if found is None:
        return None
    words, blocks, tile, grain = found
    out = np.empty(x.shape, x.dtype)
    parallel(_turn(KINDS[x.itemsize], tile), blocks, x, out, *words, grain=4 * grain)
    return out


def copy_into(target: np.ndarray, source: np.ndarray) -> bool:
    """Whether a kernel has copied `source` into `target`, of the same shape and type.

    Its rows must be contiguous in the target, and contiguous, reversed or one element in the source.
    """
    found = _sizes(source.shape, source.strides, target.strides, source.itemsize)
    if found is None:
        return False
    begins, words, blocks, how = found
    streamed = target.nbytes >= stream_from() and words[3] * source.itemsize >= LEAST_STREAMED
    routine = _copy(KINDS[source.itemsize], how, streamed)
    parallel(routine, blocks, source, target, *begins, *words, grain=4)
    return True


@native("ppqqqq")
def _join(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Of each part the address, the bytes of a row and those from row to row; the result; parts, bytes of a row of the result,
    rows, rows of a block."""
    table, out, parts, width, rows, each = arguments
    with code.loop(first * each, code.minimum(last * each, rows)) as row:
        place = code.variable("i64", code.cast(out, "i64") + row * width)
        with code.loop(0, parts) as k:
            source, size, step = (code.load("i64", table, k * 3 + j) for j in range(3))
            code.copy(place.get(), source + row * step, size)
            place.add(size)


def join(parts: Sequence[np.ndarray], dim: int, out: np.ndarray) -> bool:
    """Whether arrays of one type have been joined along `dim` to the contiguous `out`, row by row of the result.

    Not where few long rows are: a part is copied as fast as a whole, or past the cache.
    """
    rows = math.prod(out.shape[:dim])
    width = out.nbytes // rows
    long = out.nbytes >= stream_from() and width >= LONG * len(parts)
    if (
        long or rows < MANY_ROWS or WATCH.trace is not None
    ):  # a trace knows no arrays of which a table has the addresses
        return False
    steps = [_row_step(x.shape, x.strides, dim, x.itemsize) for x in parts]
    sizes = [x.nbytes // rows for x in parts]
    if None in steps or min(sizes) < SHORT:
        return False
    words = zip(map(address_of, parts), sizes, steps, strict=True)
    table, each = np.array([*words], np.int64), max(1, UNITS // width)
    parallel(_join(), -(-rows // each), table, out, len(parts), width, rows, each, grain=4)
    return True


@functools.lru_cache(1024)
def _row_step(shape: tuple[int, ...], strides: tuple[int, ...], dim: int, itemsize: int) -> int | None:
    """The bytes from row to row of an array whose rows, the dimensions from `dim` on, are contiguous; None where it has none."""
    end = itemsize
    for n, stride in zip(shape[: dim - 1 if dim else None : -1], strides[: dim - 1 if dim else None : -1], strict=True):
        if n != 1 and stride != end:
            return None
        end *= n
    outer = [(n, stride) for n, stride in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
    if any(above != n * stride for (_, above), (n, stride) in itertools.pairwise(outer)):
        return None
    return outer[-1][1] if outer else 0


@native("ppqqqqq")
def _triangle(
    code: Code, first: Value, last: Value, arguments: list[Value], kind: str, lower: bool, copies: bool
) -> None:
    """x, out, rows (of all matrices), height, width, edge, each: keep what is on one side of a diagonal.

    copies: from x; else `out` has it.
    """
    x, out, rows, height, width, edge, each = arguments
    many = 4 * vector_width() // SIZES[kind]
    with code.loop(first * each, code.minimum(last * each, rows)) as row:
        cut = row % height + edge + 1
        cut = code.select(cut < 0, 0, code.minimum(cut, width))
        base = row * width

        def keep(left: Value, right: Value, base: Value = base) -> None:
            source, target = (code.at(kind, a, base + left) for a in (x, out))

            def write(e: Value, vectors: int, width: int) -> None:
                values = [code.load(kind, source, e + u * width, width) for u in range(vectors)]
                for u, value in enumerate(values):
                    code.store(value, target, e + u * width)

            code.vectors(right - left, many, write, unrolled=UNROLLED, narrows=True)

        def clear(left: Value, right: Value, base: Value = base) -> None:
            target = code.at(kind, out, base + left)

            def write(e: Value, vectors: int, width: int) -> None:
                for u in range(vectors):
                    code.store(code.value(0, f"<{width} x {kind}>" if width else kind), target, e + u * width)

            code.vectors(right - left, many, write, unrolled=UNROLLED, narrows=True)

        begin = code.value(0, "i64")
        if copies or not lower:
            (keep if lower else clear)(begin, cut)
        if copies or lower:
            (clear if lower else keep)(cut, width)


def triangle(x: np.ndarray, edge: int, lower: bool, out: np.ndarray | None = None) -> np.ndarray:
    """The lower or upper triangle of the contiguous matrices x (*, N, M); element (i, j) is in the lower one if j <= i + edge.

    out: x itself, where it is to be written to.
    """
    copies = out is None
    out = np.empty_like(x) if out is None else out
    height, width = x.shape[-2:]
    each = max(1, UNITS // (width * x.itemsize))
    rows = x.size // width
    if lower and not copies and rows == height:  # further rows of one matrix stay as they are
        rows = max(0, min(rows, width - edge - 1))
    args = x, out, rows, height, width, edge, each
    parallel(_triangle(KINDS[x.itemsize], lower, copies), -(-rows // each), *args, grain=4)  # type: ignore[arg-type]
    return out


@native("pppqq")
def _pairs(code: Code, first: Value, last: Value, arguments: list[Value], kind: str) -> None:
    """x, y, out, n, each: the elements of x and y in turn."""
    x, y, out, n, each = arguments
    many = VECTOR // SIZES[kind]
    places = [k // 2 + many * (k % 2) for k in range(2 * many)]
    stop = code.minimum(last * each, n)
    start = first * each
    whole = start + (stop - start) // many * many
    with code.loop(start, whole, many) as i:
        code.store(code.shuffle(code.load(kind, x, i, many), code.load(kind, y, i, many), places), out, i * 2)
    with code.loop(whole, stop) as i:
        for k, array in enumerate((x, y)):
            code.store(code.load(kind, array, i), out, i * 2 + k)


def pairs(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """Write the elements of the contiguous x and y in turn to `out`, such as real and imaginary parts to complex numbers."""
    each = UNITS // x.itemsize
    parallel(_pairs(KINDS[x.itemsize]), -(-x.size // each), x, y, out, x.size, each, grain=4)  # type: ignore[arg-type]
