"""Largest elements of windows of uneven size in float32 on the CPU, and gradients of maxima by their places.

Lines, images and volumes alike: a line is a volume of one slice of one row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._backend.windows import adaptive_spans
from tdt._kernels._code import Code, Value, native
from tdt._kernels._pool import parallel
from tdt._kernels._rows import LANES, allocated, contiguous, for_each, load, release, store

GRAIN = 1 << 15  # elements that a thread should at least have


def adaptive_max(x: np.ndarray, *, windows: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The op `adaptive_max` for x (N, C, *)."""
    shape, numbers = _call(x, windows)
    found = np.empty(shape, np.float32), np.empty(shape, np.int64)
    grain = -(-GRAIN // math.prod(x.shape[2:]))
    parallel(_maxima(), math.prod(shape[:2]), contiguous(x), *found, *numbers, grain=grain)  # type: ignore[arg-type]
    return found


def prepared_adaptive_max(x: np.ndarray, *, windows: tuple, recorded: bool) -> Callable[[np.ndarray], Any] | None:
    """`adaptive_max` for contiguous arrays of the shape of x, on the calling thread; see `prepares`."""
    if x.size >= 2 * GRAIN:
        return None
    shape, numbers = _call(x, windows)
    run = _maxima().with_last(math.prod(shape[:2]), *numbers)

    def pooled(x: np.ndarray) -> Any:
        found, indices = np.empty(shape, np.float32), np.empty(shape, np.int64)
        run(x, found, indices)
        return (found, indices) if recorded else found

    return pooled


def pool_scatter(y: np.ndarray, indices: np.ndarray, *, size: tuple) -> np.ndarray:
    """The op `pool_scatter`: for each cell of images of this size the sum of y over the windows that name it."""
    found = np.empty((*y.shape[:2], *size), np.float32)
    planes, arrays = y.shape[0] * y.shape[1], (contiguous(y), contiguous(indices), found)
    windows, cells = y.size // planes, math.prod(size)
    if found.size + y.size < 2 * GRAIN:
        _scatter().run(planes, arrays, windows, cells)
    else:
        grain = -(-GRAIN // (cells + windows))
        parallel(_scatter(), planes, *arrays, windows, cells, grain=grain)  # type: ignore[arg-type]
    return found


def _call(x: np.ndarray, windows: tuple) -> tuple[tuple, tuple]:
    """The shape of the results, and the kernel's arguments from the windows' table on."""
    size, count = ((*(1,) * (3 - len(each)), *each) for each in (x.shape[2:], windows))
    return (*x.shape[:2], *windows), (_spans(size, count), *size, *count)


@functools.lru_cache(256)
def _spans(size: tuple, windows: tuple) -> np.ndarray:
    """Of each dimension the first cells of all windows, then the ends."""
    return np.concatenate(
        [cells for n, m in zip(size, windows, strict=True) for cells in adaptive_spans(n, m)], dtype=np.int64
    )


@native("pppp" + "q" * 6)
def _maxima(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """x, out, indices, windows, sizes: the largest cell of each window, the last NaN where there is one, and its place.

    Rows of a window are folded into one line, in vectors, with the rows of the largest; then the line's columns.
    """
    x, out, indices, spans, depth, height, width, slices, rows, columns = arguments
    line, lines = allocated(code, width, width)
    below, behind = code.at("i64", spans, slices + slices), code.at("i64", spans, (slices + rows) * 2)
    with code.loop(first, last) as plane, code.loop(0, slices) as a, code.loop(0, rows) as b:
        image = code.at("float", x, plane * depth * height * width)
        deep = code.load("i64", spans, a), code.load("i64", spans, slices + a)
        high = code.load("i64", below, b), code.load("i64", below, rows + b)
        # A window has a cell in this row if it is nothing but -inf.
        top = code.cast((deep[0] * height + high[0]) * width, "i32")

        def down(i: Value, mask: Value | None, image: Value = image, deep: tuple = deep, high: tuple = high,
                 top: Value = top) -> None:  # fmt: skip
            best, at = code.variable(f"<{LANES} x float>", -math.inf), code.variable(f"<{LANES} x i32>")
            at.set(code.splat(top, LANES))
            with code.loop(*deep) as d, code.loop(*high) as h:
                row = (d * height + h) * width
                cells = load(code, image, row + i, mask)
                better = (cells > best.get()) | (cells != cells)
                best.set(code.select(better, cells, best.get()))
                at.set(code.select(better, code.splat(code.cast(row, "i32"), LANES), at.get()))
            store(code, best.get(), line, i, mask)
            store(code, code.bits(at.get(), "float"), lines, i, mask)

        for_each(code, width, down)
        with code.loop(0, columns) as c:
            begin, target = code.load("i64", behind, c), ((plane * slices + a) * rows + b) * columns + c
            best, at = code.variable("float"), code.variable("i64")

            def place(w: Value) -> Value:
                return code.cast(code.load("i32", lines, w), "i64") + w

            best.set(code.load("float", line, begin))
            at.set(place(begin))
            with code.loop(begin + 1, code.load("i64", behind, columns + c)) as w:
                cell, here, largest, there = code.load("float", line, w), place(w), best.get(), at.get()
                # Of equals the first, row by row, of several NaN the last.
                missing = (cell != cell) & ((largest == largest) | (here > there))
                better = (cell > largest) | ((cell == largest) & (here < there)) | missing
                best.set(code.select(better, cell, largest))
                at.set(code.select(better, here, there))
            code.store(best.get(), out, target)
            code.store(at.get(), indices, target)
    release(code, line)


@native("pppqq")
def _scatter(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """y (planes, windows), indices, out (planes, cells), windows, cells. Sums are double, in the order of the windows."""
    y, indices, out, windows, cells = arguments
    sums = allocated(code, cells * 2)[0]
    with code.loop(first, last) as plane:
        code.clear(sums, cells * 8)
        with code.loop(plane * windows, (plane + 1) * windows) as window:
            at = code.load("i64", indices, window)
            with code.when((at >= 0) & (at < cells)):  # a window of dilated cells may lie in the padding as a whole
                code.store(code.load("double", sums, at) + code.cast(code.load("float", y, window), "double"), sums, at)
        image = code.at("float", out, plane * cells)
        with code.loop(0, cells) as i:
            code.store(code.cast(code.load("double", sums, i), "float"), image, i)
    release(code, sums)
