"""Bilinear and nearest samples of images (N, C, H, W) at positions (N, H', W', 2) on the CPU, and their gradients, in one pass.

The positions of a block become pixels and weights, by which one channel after the other is computed. Fused multiply-adds and
the order of sums are PyTorch's on processors with AVX2, and so are the bits. The gradient in a plane of the images is summed in
the order of the positions, on one thread.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._code import SIZES as SIZE_OF
from tdt._kernels._code import Code, Value, native
from tdt._kernels._pool import parallel, stays_on_caller
from tdt._kernels._registry import prepares
from tdt._kernels._rows import contiguous, fma
from tdt._kernels._syntax import element, vector_length

GRAIN = 1 << 13  # results that a thread should at least have
POINTS = 1 << 8  # positions of a block: pixels and weights take 8 kilobytes of the cache, and leave room for a plane
KINDS = {"f": ("float", 16), "d": ("double", 8)}  # by NumPy's letter: the type of an element, the elements of a vector
OUTSIDE = -1  # in the place of a pixel's index
SIZES = "q" * 5  # samples' channels, height, width, positions, and blocks of positions


def grid_sample(x: np.ndarray, grid: np.ndarray, *, mode: str, padding: str, align: bool) -> np.ndarray:
    """The op `grid_sampler_2d`."""
    out = np.empty((*x.shape[:2], *grid.shape[1:3]), x.dtype)
    blocks, sizes = _sizes(x, grid)
    kernel = _samples(x.dtype.char, mode, padding, align)
    parallel(kernel, blocks, contiguous(x), contiguous(grid), out, *sizes, grain=_grain(out, blocks))  # type: ignore[arg-type]
    return out


@prepares(grid_sample)
def _(x: np.ndarray, grid: np.ndarray, *, mode: str, padding: str, align: bool,
      recorded: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:  # fmt: skip
    shape, kind = (*x.shape[:2], *grid.shape[1:3]), x.dtype
    blocks, sizes = _sizes(x, grid)
    if not stays_on_caller(blocks, -(-GRAIN * blocks // max(1, math.prod(shape)))):
        return None
    run = _samples(kind.char, mode, padding, align).with_last(blocks, *sizes)

    def sampled(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
        out = np.empty(shape, kind)
        run(x, grid, out)
        return out

    return sampled


def grid_sample_vjp(g: np.ndarray, x: np.ndarray, grid: np.ndarray, *, needs: tuple[bool, bool], mode: str, padding: str,
                    align: bool) -> list[np.ndarray | None]:  # fmt: skip
    """The gradients in the images and in the positions that are needed."""
    g, x, grid = (contiguous(a) for a in (g, x, grid))
    found: list[np.ndarray | None] = [None, None]
    blocks, sizes = _sizes(x, grid)
    how = x.dtype.char, mode, padding, align
    if needs[0]:
        found[0] = np.empty(x.shape, x.dtype)
        planes = x.shape[0] * x.shape[1]
        grain = -(-GRAIN * planes // max(1, x.size + g.size))
        parallel(_image_gradient(*how), planes, g, grid, found[0], *sizes, grain=grain)  # type: ignore[arg-type]
    if needs[1]:
        found[1] = (np.zeros if mode == "nearest" else np.empty)(grid.shape, x.dtype)
        if mode == "bilinear":
            grain = _grain(g, blocks)
            parallel(_position_gradient(*how), blocks, g, x, grid, found[1], *sizes, grain=grain)  # type: ignore[arg-type]
    return found


def _sizes(x: np.ndarray, grid: np.ndarray) -> tuple[int, tuple[int, ...]]:
    """How many blocks there are, and the kernels' last arguments."""
    points = math.prod(grid.shape[1:3])
    parts = -(-points // POINTS)
    return len(x) * parts, (*x.shape[1:], points, parts)


def _grain(results: np.ndarray, blocks: int) -> int:
    return -(-GRAIN * blocks // max(1, results.size))


class _Axis(NamedTuple):
    """Positions along one axis."""

    at: Value  # pixels from the first one's centre
    slope: Value  # the derivative of `at`
    size: Value  # pixels, as floats


def _axis(code: Code, g: Value, size: Value, padding: str, align: bool) -> _Axis:
    """From coordinates g, in which the axis has the length 2."""
    n = code.splat(code.cast(size, element(g.kind)), vector_length(g.kind))
    slope = (n - 1.0) * 0.5 if align else n * 0.5
    at = (g + 1.0) * slope if align else fma(code, g + 1.0, slope, code.value(-0.5, g.kind))
    if padding == "zeros":
        return _Axis(at, slope, n)
    if padding == "reflection":
        low, period = (0.0, n + n - 2.0) if align else (-0.5, n + n)
        distance = code.call("fabs", at - low)
        rest = fma(code, 0.0 - code.call("trunc", distance / period), period, distance)
        turned = rest > period - rest
        slope = code.select((at < low) ^ turned, 0.0 - slope, slope)
        at = code.select(turned, period - rest, rest) + low
    last = n - 1.0
    inside = (at > 0.0) & (at < last)  # NaN is outside, and goes to the first pixel
    return _Axis(code.select(inside, at, code.select(at > 0.0, last, 0.0)), code.select(inside, slope, 0.0), n)


class _Tap(NamedTuple):
    """A pixel along an axis, for each of some positions."""

    index: Value  # 0 where it is outside of the image
    inside: Value
    weight: Value | None  # None: 1


def _along(code: Code, axis: _Axis, mode: str) -> list[_Tap]:
    def pixel(place: Value, weight: Value | None) -> _Tap:
        inside = (place >= 0.0) & (place < axis.size)  # not NaN either
        return _Tap(code.cast(code.select(inside, place, 0.0), "i32"), inside, weight)

    if mode == "nearest":
        return [pixel(code.call("rint", axis.at), None)]
    low = code.call("floor", axis.at)
    fraction = axis.at - low
    return [pixel(low, 1.0 - fraction), pixel(low + 1.0, fraction)]


class _Block:
    """The pixels around the positions of a block, and numbers for each, in memory on the stack."""

    def __init__(self, code: Code, letter: str, mode: str, padding: str, align: bool):
        self.code, self.mode, self.padding, self.align = code, mode, padding, align
        self.kind, self.lanes = KINDS[letter]
        self.pixels = 1 if mode == "nearest" else 4  # row by row
        self.indices = code.array("i32", self.pixels * POINTS)
        self.numbers = code.array(self.kind, 6 * POINTS)

    def locate(self, grid: Value, count: Value, height: Value, width: Value,
               numbers: Callable[[_Axis, _Axis, list[_Tap], list[_Tap]], list[Value]]) -> None:  # fmt: skip
        """Find the pixels of `count` positions, and store `numbers` of what is down and across the image."""
        code = self.code

        def write(point: Value, _: int, lanes: int) -> None:
            x, y = self._coordinates(grid, point, lanes)
            axes = [_axis(code, g, size, self.padding, self.align) for g, size in ((y, height), (x, width))]
            down, across = (_along(code, axis, self.mode) for axis in axes)
            for k, (row, column) in enumerate(itertools.product(down, across)):
                index = row.index * code.splat(code.cast(width, "i32"), lanes) + column.index
                code.store(code.select(row.inside & column.inside, index, OUTSIDE), self.indices, point + k * POINTS)
            for k, number in enumerate(numbers(axes[0], axes[1], down, across)):
                code.store(number, self.numbers, point + k * POINTS)

        code.vectors(count, self.lanes, write)

    def _coordinates(self, grid: Value, point: Value, lanes: int) -> tuple[Value, Value]:
        code = self.code
        if not lanes:
            return code.load(self.kind, grid, point * 2), code.load(self.kind, grid, point * 2 + 1)
        pairs = code.load(self.kind, grid, point * 2, 2 * lanes)
        return code.shuffle(pairs, pairs, range(0, 2 * lanes, 2)), code.shuffle(pairs, pairs, range(1, 2 * lanes, 2))

    def number(self, k: int, point: Value, lanes: int) -> Value:
        """The numbers k of positions."""
        return self.code.load(self.kind, self.numbers, point + k * POINTS, lanes)

    def values(self, image: Value, point: Value, lanes: int) -> list[Value]:
        """The pixels of a plane around positions, 0 outside of it."""
        code, found = self.code, []
        for k in range(self.pixels):
            index = code.load("i32", self.indices, point + k * POINTS, lanes)
            place = code.select(index == OUTSIDE, 0, index)
            if lanes:
                value = code.gather_at(self.kind, image, place)
            else:
                value = code.load(self.kind, image, code.cast(place, "i64"))
            found.append(code.select(index == OUTSIDE, 0.0, value))
        return found


def _weights(*found: Any) -> list[Value]:
    """The pixels' weights."""
    _, _, down, across = found
    return [row.weight * column.weight for row, column in itertools.product(down, across)] if len(down) > 1 else []


@contextlib.contextmanager
def _blocks(code: Code, first: Value, last: Value, points: Value, parts: Value) -> Iterator[tuple[Value, Value, Value]]:
    """Of each block of positions the image, the first position and how many there are."""
    with code.loop(first, last) as block:
        image = block // parts
        start = (block - image * parts) * POINTS
        yield image, start, code.minimum(points - start, POINTS)


@native("ppp" + SIZES, vectorize=False)
def _samples(code: Code, first: Value, last: Value, arguments: list[Value], *how: Any) -> None:
    x, grid, out, channels, height, width, points, parts = arguments
    block = _Block(code, *how)
    kind = block.kind
    with _blocks(code, first, last, points, parts) as (image, start, count):
        block.locate(code.at(kind, grid, (image * points + start) * 2), count, height, width, _weights)
        with code.loop(image * channels, (image + 1) * channels) as plane:
            pixels = code.at(kind, x, plane * height * width)
            line = code.at(kind, out, plane * points + start)

            def write(point: Value, _: int, lanes: int, pixels: Value = pixels, line: Value = line) -> None:
                total, *rest = block.values(pixels, point, lanes)
                if rest:
                    total = total * block.number(0, point, lanes)
                for k, value in enumerate(rest, 1):
                    total = fma(code, value, block.number(k, point, lanes), total)
                code.store(total, line, point)

            code.vectors(count, block.lanes, write)


@native("pppp" + SIZES, vectorize=False)
def _position_gradient(code: Code, first: Value, last: Value, arguments: list[Value], *how: Any) -> None:
    """g, x, grid, out: of bilinear samples."""
    g, x, grid, out, channels, height, width, points, parts = arguments
    block = _Block(code, *how)
    kind = block.kind
    sums = code.array(kind, 2 * POINTS)

    def numbers(y: _Axis, x: _Axis, down: list[_Tap], across: list[_Tap]) -> list[Value]:
        return [tap.weight for tap in (*down, *across)] + [y.slope, x.slope]

    with _blocks(code, first, last, points, parts) as (image, start, count):
        origin = (image * points + start) * 2
        block.locate(code.at(kind, grid, origin), count, height, width, numbers)
        code.clear(sums, 2 * POINTS * SIZE_OF[kind])
        with code.loop(image * channels, (image + 1) * channels) as plane:
            pixels = code.at(kind, x, plane * height * width)
            line = code.at(kind, g, plane * points + start)

            def add(point: Value, _: int, lanes: int, pixels: Value = pixels, line: Value = line) -> None:
                a, b, c, d = block.values(pixels, point, lanes)
                above, below, left, right = (block.number(k, point, lanes) for k in range(4))
                slope = code.load(kind, line, point, lanes)
                for k, (p, near, q, far) in enumerate(((c - a, left, d - b, right), (b - a, above, d - c, below))):
                    at = point + k * POINTS
                    change = fma(code, q, far, p * near)
                    code.store(fma(code, change, slope, code.load(kind, sums, at, lanes)), sums, at)

            code.vectors(count, block.lanes, add, once=True)
        target = code.at(kind, out, origin)
        with code.loop(0, count) as point:
            for k in range(2):
                total = code.load(kind, sums, point + k * POINTS) * block.number(4 + k, point, 0)
                code.store(total, target, point * 2 + (1 - k))


@native("ppp" + SIZES, vectorize=False)
def _image_gradient(code: Code, first: Value, last: Value, arguments: list[Value], *how: Any) -> None:
    """g, grid, out: of the planes [first, last)."""
    g, grid, out, channels, height, width, points, _ = arguments
    block = _Block(code, *how)
    kind = block.kind
    group = block.lanes // 2  # positions whose first pixels are added before all second ones
    with code.loop(first, last) as plane:
        pixels = code.at(kind, out, plane * height * width)
        code.clear(pixels, height * width * SIZE_OF[kind])
        with code.loop(0, points, POINTS) as start:
            count = code.minimum(points - start, POINTS)
            line = code.at(kind, g, plane * points + start)
            block.locate(code.at(kind, grid, (plane // channels * points + start) * 2), count, height, width, _weights)
            with code.loop(0, count, group) as some:
                end = code.minimum(some + group, count)
                for k in range(block.pixels):
                    with code.loop(some, end) as point:
                        index = code.load("i32", block.indices, point + k * POINTS)
                        with code.when(index != OUTSIDE):
                            cell, term = code.cast(index, "i64"), code.load(kind, line, point)
                            term = term * block.number(k, point, 0) if block.pixels > 1 else term
                            code.store(code.load(kind, pixels, cell) + term, pixels, cell)
