"""Pooling of contiguous float32 volumes (N, C, D, H, W) in 2×2×2 windows, and its gradients, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._code import Code, Value, native
from tdt._kernels._native import NativeKernel, vector_width
from tdt._kernels._pool import parallel
from tdt._kernels.pool_cpu import cells_of_tiles, maximum, of_vectors, shares

GRAIN = 1 << 15  # elements that a thread should at least have


def max_pool(x: np.ndarray, **how: Any) -> np.ndarray:
    """The op `max_pool`; NaN wins over every number."""
    found = np.empty(_halved(x.shape), np.float32)
    _run(_maxima(vector_width()), (x, found), x.shape)
    return found


def max_pool_vjp(g: np.ndarray, out: np.ndarray, x: np.ndarray, **how: Any) -> np.ndarray:
    """The gradient in x: each window gives its own to the first cell that equals the largest, or to its last NaN."""
    grad = np.empty(x.shape, np.float32)
    g, out = np.ascontiguousarray(g), np.ascontiguousarray(out)
    _run(_maxima_grad(vector_width()), (g, out, x, grad), x.shape)
    return grad


def window_means(x: np.ndarray, count: np.ndarray, **how: Any) -> np.ndarray:
    """The sum of each window, divided by `count`, (1,)."""
    found = np.empty(_halved(x.shape), np.float32)
    _run(_means(vector_width()), (x, found, count), x.shape)
    return found


def window_means_vjp(g: np.ndarray, count: np.ndarray, *, size: tuple, **how: Any) -> np.ndarray:
    """For each element of volumes of this size g / count of its window, 0 where it has none."""
    grad = np.empty((*g.shape[:2], *size), np.float32)
    _run(_means_grad(vector_width()), (g, grad, count), grad.shape)
    return grad


def prepared_max_pool(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """`max_pool` for volumes of the shape of x, on the calling thread; see `prepares`."""
    return _prepared(_maxima(vector_width()), x)


def prepared_means(x: np.ndarray, count: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """`window_means` for volumes of the shape of x, on the calling thread; see `prepares`."""
    return _prepared(_means(vector_width()), x, count)


def _prepared(kernel: NativeKernel, x: np.ndarray, *counts: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    if x.size >= 2 * GRAIN:
        return None
    run, shape = kernel.with_last(x.shape[0] * x.shape[1], *counts, *x.shape[2:]), _halved(x.shape)

    def pooled(x: np.ndarray) -> np.ndarray:
        found = np.empty(shape, np.float32)
        run(x, found)
        return found

    return pooled


def _halved(shape: tuple) -> tuple:
    return (*shape[:2], *[n // 2 for n in shape[2:]])


def _run(kernel: NativeKernel, arrays: tuple[np.ndarray, ...], shape: tuple) -> None:
    """Call the kernel on all volumes, (N, C, D, H, W)."""
    count, channels, depth, height, width = shape
    volumes, grain = count * channels, -(-GRAIN // (depth * height * width))
    if volumes < 2 * grain:
        kernel.run(volumes, arrays, depth, height, width)
    else:
        parallel(kernel, volumes, *arrays, depth, height, width, grain=grain)  # type: ignore[arg-type]


class _Volumes:
    """The windows of volumes [first, last) in the code."""

    def __init__(self, code: Code, sizes: list[Value]):
        self.code = code
        self.depth, self.rows, self.columns = sizes

    def for_each(self, first: Value, last: Value, width: int, write: Callable[[Value, Value, int], None]) -> None:
        """`write(start, window, lanes)` for vectors of windows along a row: the first one's first cell, and the first one."""
        code, (deep, down, across) = self.code, (n // 2 for n in (self.depth, self.rows, self.columns))
        with code.loop(first, last) as n, code.loop(0, deep) as s, code.loop(0, down) as i:
            start = ((n * self.depth + 2 * s) * self.rows + 2 * i) * self.columns
            window = ((n * deep + s) * down + i) * across
            of_vectors(code, across, width, lambda k, lanes: write(start + 2 * k, window + k, lanes))

    def cells(self, x: Value, start: Value, lanes: int) -> list[Value]:
        """The eight cells of each window, slice by slice and row by row."""
        slices = start, start + self.rows * self.columns
        return [cell for at in slices for cell in cells_of_tiles(self.code, x, at, self.columns, lanes)]

    def put(self, values: list[Value], out: Value, start: Value, lanes: int) -> None:
        """Write the eight cells of each window."""
        pairs = [place for k in range(lanes) for place in (k, lanes + k)]
        for number in range(0, 8, 2):
            two, place = values[number : number + 2], start + self.columns * (number // 2 % 2)
            place = place + self.rows * self.columns if number > 3 else place
            if lanes:
                self.code.store(self.code.shuffle(*two, pairs), out, place)
            else:
                self.code.store(two[0], out, place)
                self.code.store(two[1], out, place + 1)

    def clear(self, first: Value, last: Value, out: Value) -> None:
        """Set volumes with cells that no window has to 0."""
        size = self.depth * self.rows * self.columns
        with self.code.when(((self.depth | self.rows | self.columns) & 1) != 0):
            self.code.clear(self.code.at("float", out, first * size), (last - first) * size * 4)


@native("ppqqq", vectorize=False)
def _maxima(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """x, out, sizes."""
    x, out, *sizes = arguments
    volumes = _Volumes(code, sizes)

    def write(start: Value, window: Value, lanes: int) -> None:
        best, *others = volumes.cells(x, start, lanes)
        for cell in others:
            best = maximum(code, best, cell)
        code.store(best, out, window)

    volumes.for_each(first, last, width, write)


@native("ppppqqq", vectorize=False)
def _maxima_grad(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """g, out, x, grad, sizes."""
    g, out, x, grad, *sizes = arguments
    volumes = _Volumes(code, sizes)

    def write(start: Value, window: Value, lanes: int) -> None:
        gradient, largest = code.load("float", g, window, lanes), code.load("float", out, window, lanes)
        volumes.put(shares(code, gradient, largest, volumes.cells(x, start, lanes)), grad, start, lanes)

    volumes.clear(first, last, grad)
    volumes.for_each(first, last, width, write)


@native("pppqqq", vectorize=False)
def _means(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """x, out, count, sizes. Sums have the order of the portable form: along the depth first, then the height."""
    x, out, count, *sizes = arguments
    volumes, by = _Volumes(code, sizes), code.load("float", count)

    def write(start: Value, window: Value, lanes: int) -> None:
        cells = volumes.cells(x, start, lanes)
        for _ in range(3):
            half = len(cells) // 2
            cells = [a + b for a, b in zip(cells[:half], cells[half:], strict=True)]
        code.store((cells[0] + 0.0) / code.splat(by, lanes), out, window)  # a sum of -0 is 0

    volumes.for_each(first, last, width, write)


@native("pppqqq", vectorize=False)
def _means_grad(code: Code, first: Value, last: Value, arguments: list[Value], width: int) -> None:
    """g, grad, count, sizes."""
    g, grad, count, *sizes = arguments
    volumes, by = _Volumes(code, sizes), code.load("float", count)

    def write(start: Value, window: Value, lanes: int) -> None:
        share = code.load("float", g, window, lanes) / code.splat(by, lanes) + 0.0  # -0.0 becomes 0.0, as in a sum
        volumes.put([share] * 8, grad, start, lanes)

    volumes.clear(first, last, grad)
    volumes.for_each(first, last, width, write)
