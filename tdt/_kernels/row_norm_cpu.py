"""Batch normalisation of channels that lie side by side, (N, C) or channels-last images, of float32 or bfloat16, on the CPU.

All is rows of columns, at least `WIDTH` of them: several rows of few channels are seen as one. A block of rows has its sums
about its own means, which are joined in double precision (T. F. Chan, G. H. Golub, R. J. LeVeque, 1983). Blocks are
cut by the shape alone; small arrays are computed by one call, others by the pool, in the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from tdt._kernels import _bfloat16, _rows, plane_norm_cpu
from tdt._kernels._code import Code, Value, native
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._layout import like
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel
from tdt._kernels._registry import prepares
from tdt._kernels._rows import LANES, contiguous, fma, for_each, load, store
from tdt._kernels._syntax import vector
from tdt._kernels.layer_norm_cpu import _equal

FEW = 1 << 9  # elements of (N, C) that are normalised by given statistics in a short call
WIDTH = 128  # columns, at least, if the number of rows allows it
BLOCK = 1 << 14  # elements of a block of rows
CHUNK = 16  # rows that are summed in registers
GRAIN = 1 << 15  # elements that a thread should at least have
# The steps of a call: numbers of the columns, sums of blocks, what follows from all of them, the result.
ALL, BEGIN, FIRST, JOIN, LAST = range(5)
# Words: the step, then rows, columns, channels, rows of a block, elements to the next row of numbers.
SIZES = "qqqqqq"


def batch_norm(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The op `batch_norm`: the result, mean, 1 / √(variance + eps) and unbiased variance."""
    shape, channels = _Shape(x), x.shape[1]
    out, statistics = np.empty_like(x), np.empty((3, channels), np.float32)
    arrays = x, out, _or(w, channels, 1), _or(b, channels, 0), statistics
    shape.run(_forward(x.dtype == BFLOAT16), (FIRST, JOIN, LAST), arrays, shape.room(3, 3, 4), eps)
    return out, statistics[0], statistics[1], statistics[2]


def batch_norm_vjp(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, g_mean: np.ndarray, g_rstd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The gradients in x, w and b, from those of the result, the mean and 1 / √(variance + eps)."""
    shape, channels = _Shape(x), x.shape[1]
    grad, sums = np.empty_like(x), np.empty((2, channels), np.float32)
    arrays = like(g, x), x, grad, _or(w, channels, 1), *map(contiguous, (mean, rstd, g_mean, g_rstd)), sums
    shape.run(_backward(x.dtype == BFLOAT16), (BEGIN, FIRST, JOIN, LAST), arrays, shape.room(2, 2, 4))
    return grad, sums[1], sums[0]


@prepares(batch_norm)
def _(
    x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *, eps: float, recorded: bool
) -> Callable[..., Any] | None:
    shape, channels = _Shape(x), x.shape[1]
    if x.dtype == BFLOAT16 or shape.large:
        return None
    outer, ones, zeros, rooms = x.shape, _equal(channels, 1), _equal(channels, 0), (3, 3, 4)
    run = _forward(False).with_last(shape.blocks, *shape.words(), eps)

    def normed(x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> Any:
        out, statistics = np.empty(outer, np.float32), np.empty((3, channels), np.float32)
        run(x, out, ones if w is None else w, zeros if b is None else b, statistics, *shape.room(*rooms))
        return (out, *statistics) if recorded else out

    return normed


@prepares(batch_norm_vjp)
def _(
    g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray
) -> Callable[..., tuple] | None:
    shape, channels = _Shape(x), x.shape[1]
    if shape.large or not all(a is None or a.flags.c_contiguous for a in (g, x, w, mean, rstd)):
        return None
    outer, dtype, ones, zeros = x.shape, x.dtype, _equal(channels, 1), np.zeros(channels, np.float32)
    run = _backward(dtype == BFLOAT16).with_last(shape.blocks, *shape.words())

    def gradients(g: np.ndarray, x: np.ndarray, w: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray) -> tuple:
        grad, sums = np.empty(outer, dtype), np.empty((2, channels), np.float32)
        run(g, x, grad, ones if w is None else w, mean, rstd, zeros, zeros, sums, *shape.room(2, 2, 4))
        return grad, sums[1], sums[0]

    return gradients


def batch_norm_eval(x: np.ndarray, mean: np.ndarray, var: np.ndarray, w: np.ndarray | None, b: np.ndarray | None, *,
                    eps: float) -> np.ndarray:  # fmt: skip
    """The op `batch_norm_eval`: the input normalised by statistics of its channels."""
    if x.size <= FEW and x.ndim == 2:  # each element as a plane of its own, in one short call
        return plane_norm_cpu.batch_norm_eval(x, mean, var, w, b, eps=eps)
    shape, channels, out = _Shape(x), x.shape[1], np.empty_like(x)
    arrays = x, out, contiguous(mean), contiguous(var), _or(w, channels, 1), _or(b, channels, 0)
    shape.run(_evaluated(), (BEGIN, LAST), arrays, shape.room(0, 0, 3), eps)
    return out


def batch_norm_eval_vjp(
    g: np.ndarray, x: np.ndarray, mean: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scale · g, and the sums of g and of g (x - mean) over each channel."""
    shape, channels = _Shape(x), x.shape[1]
    grad, sums = np.empty_like(x), np.empty((2, channels), np.float32)
    arrays = like(g, x), x, grad, contiguous(mean), contiguous(scale), sums
    shape.run(_evaluated_backward(), (BEGIN, FIRST, JOIN), arrays, shape.room(2, 2, 2))
    return grad, sums[0], sums[1]


def _or(v: np.ndarray | None, channels: int, value: int) -> np.ndarray:
    return _equal(channels, value) if v is None else contiguous(v)


class _Shape:
    """How an array (N, C, *) without gaps, whose channels lie side by side, is cut into blocks of rows."""

    __slots__ = ("channels", "rows", "columns", "block", "blocks", "pitch")

    def __init__(self, x: np.ndarray):
        self.channels, rows, repeats = x.shape[1], x.size // x.shape[1], 1
        while repeats * self.channels < WIDTH and rows % (2 * repeats) == 0:
            repeats *= 2
        self.rows, self.columns = rows // repeats, repeats * self.channels
        self.block = max(1, min(BLOCK // self.columns, self.rows))
        self.blocks = -(-self.rows // self.block)
        self.pitch = -(-self.columns // LANES) * LANES + LANES

    @property
    def large(self) -> bool:
        """Whether threads may share a call."""
        return self.rows * self.columns >= 2 * GRAIN

    def words(self) -> tuple[int, ...]:
        """Those of `SIZES`, for all steps in one call."""
        return ALL, self.rows, self.columns, self.channels, self.block, self.pitch

    def room(self, parts: int, sums: int, numbers: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Memory for so many sums of each block, sums over all blocks in double precision, and numbers of each column."""
        return (
            np.empty((parts, self.blocks, self.pitch), np.float32),
            np.empty((sums, self.pitch), np.float64),
            np.empty((numbers, self.pitch), np.float32),
        )

    def run(self, kernel: NativeKernel, steps: tuple[int, ...], images: tuple, room: tuple, *numbers: float) -> None:
        """Call the kernel on all blocks: once for all steps, or, where threads share it, once for each."""
        arrays = *images, *room
        if not self.large:
            kernel.run(self.blocks, arrays, *self.words(), *numbers)
            return
        sizes = self.words()[1:]
        grain = -(-GRAIN // (self.block * self.columns))
        for step in steps:
            if step in (BEGIN, JOIN):
                kernel(0, self.blocks, *arrays, step, *sizes, *numbers)
            else:
                parallel(kernel, self.blocks, *arrays, step, *sizes, *numbers, grain=grain)  # type: ignore[arg-type]


class _Blocks:
    """The sizes of a call in the code, and loops over rows and columns."""

    def __init__(self, code: Code, first: Value, last: Value, sizes: list[Value]):
        self.code, self.first, self.last = code, first, last
        self.step, self.rows, self.columns, self.channels, self.block, self.pitch = sizes
        self.blocks = (self.rows + self.block - 1) // self.block
        self.repeats = self.columns // self.channels
        self.count = code.cast(self.rows * self.repeats, "double")  # of a channel

    def when(self, step: int) -> AbstractContextManager[None]:
        """The block is run in this step."""
        return self.code.when((self.step == step) | (self.step == ALL))

    def each_block(self, body: Callable[[Value, Value, Value], None]) -> None:
        """`body(block, first row, last row)`."""
        code = self.code
        with code.loop(self.first, self.last) as block:
            start = block * self.block
            body(block, start, code.minimum(start + self.block, self.rows))

    def each_row(self, start: Value, stop: Value, body: Callable[[Value, Value, Value | None], None]) -> None:
        """`body(element, column, mask)` for the vectors of rows."""
        with self.code.loop(start, stop) as row:
            at = row * self.columns
            for_each(self.code, self.columns, lambda i, mask: body(at + i, i, mask))

    def sum_rows(self, start: Value, stop: Value, outs: list[Value],
                 terms: Callable[[Value, Value, Value | None], tuple[Value, ...]]) -> None:  # fmt: skip
        """The sums of `terms(element, column, mask)` over rows, for each column, `CHUNK` rows at a time in registers."""
        code, zeros = self.code, self.code.value(0.0, vector("float", LANES))
        with code.loop(0, self.pitch, LANES) as i:
            for out in outs:
                code.store(zeros, out, i)
        with code.loop(start, stop, CHUNK) as chunk:
            end = code.minimum(chunk + CHUNK, stop)

            def add(i: Value, mask: Value | None) -> None:
                sums = [code.variable(vector("float", LANES), 0.0) for _ in outs]
                with code.loop(chunk, end) as row:
                    for total, term in zip(sums, terms(row * self.columns + i, i, mask), strict=True):
                        total.set(total.get() + term)
                for out, total in zip(outs, sums, strict=True):
                    code.store(code.load("float", out, i, LANES) + total.get(), out, i)

            for_each(code, self.columns, add)

    def part(self, parts: Value, kind: int, block: Value) -> Value:
        """The address of a block's sums of a kind."""
        return self.code.at("float", parts, (self.blocks * kind + block) * self.pitch)

    def line(self, array: Value, kind: int, of: str = "float") -> Value:
        """The address of numbers of a kind."""
        return self.code.at(of, array, self.pitch * kind)

    def total(self, out: Value, term: Callable[[Value, Value, Value], Value]) -> None:
        """The sums over blocks of `term(block, column, rows of the block)`, in double precision, for each column."""
        code, zeros = self.code, self.code.value(0.0, vector("double", LANES))
        with code.loop(0, self.pitch, LANES) as i:
            code.store(zeros, out, i)
        with code.loop(0, self.blocks) as block:
            size = code.minimum(self.block, self.rows - block * self.block)
            many = code.splat(code.cast(size, "double"), LANES)
            with code.loop(0, self.pitch, LANES) as i:
                code.store(code.load("double", out, i, LANES) + term(block, i, many), out, i)

    def of_channel(self, sums: Value, c: Value) -> Value:
        """The sums of the columns of some channels, from channel `c` on."""
        code = self.code
        result = code.variable(vector("double", LANES), 0.0)
        with code.loop(0, self.repeats) as k:
            result.add(code.load("double", sums, k * self.channels + c, LANES))
        return result.get()

    def each_channel(self, body: Callable[[Value, Value | None], None]) -> None:
        """`body(channel, mask)` for vectors of channels."""
        for_each(self.code, self.channels, body)

    def repeat(self, *arrays: Value, kind: str = "float") -> None:
        """Copy the numbers of channels, which arrays begin with, for all columns of these channels."""
        code = self.code
        for array in arrays:
            # Beyond the channels a vector holds anything, which the next copy overwrites.
            with code.loop(1, self.repeats) as k, code.loop(0, self.channels, LANES) as c:
                code.store(code.load(kind, array, c, LANES), array, k * self.channels + c)


def _wide(code: Code, array: Value, i: Value, mask: Value | None = None) -> Value:
    return code.cast(load(code, array, i, mask), "double")


def _one(code: Code) -> Value:
    return code.splat(code.value(1.0, "double"), LANES)


@native("pppppppp" + SIZES + "d", vectorize=False)
def _forward(code: Code, first: Value, last: Value, arguments: list[Value], half: bool) -> None:
    """x, out, w, b, statistics (3, channels), then the sums of blocks, sums and numbers, the sizes and eps.

    half: x and out are of bfloat16.
    """
    memory = _bfloat16 if half else _rows
    x, out, w, b, statistics, parts, sums, numbers, *sizes, eps = arguments
    rows = _Blocks(code, first, last, sizes)
    centre, scale, shift = (rows.line(numbers, k) for k in range(3))
    together, means, squares = (rows.line(sums, k, "double") for k in range(3))

    def part(kind: int, block: Value, i: Value) -> Value:
        return code.cast(code.load("float", rows.part(parts, kind, block), i, LANES), "double")

    with rows.when(FIRST):
        rows.each_block(_moments(code, rows, x, parts, memory))
    with rows.when(JOIN):

        def plain(block: Value, i: Value, size: Value) -> Value:
            mean = part(0, block, i)
            known = size * mean
            # Differences from an infinite mean are NaN.
            return code.select(code.call("fabs", mean) < math.inf, known + part(1, block, i), known)

        rows.total(together, plain)
        share = code.splat(code.value(1.0, "double") / rows.count, LANES)
        rows.each_channel(lambda c, _: code.store(rows.of_channel(together, c) * share, means, c))
        rows.repeat(means, kind="double")

        def about_mean(block: Value, i: Value, size: Value) -> Value:
            d = part(1, block, i) / size
            moved = part(0, block, i) + d - code.load("double", means, i, LANES)
            return part(2, block, i) + size * (moved * moved - d * d)

        rows.total(squares, about_mean)
        many, less = code.splat(rows.count, LANES), code.splat(rows.count - 1.0, LANES)
        added = code.splat(eps, LANES)

        def finish(c: Value, mask: Value | None) -> None:
            mean, square = code.load("double", means, c, LANES), rows.of_channel(squares, c)
            square = code.select(square < 0.0, 0.0, square)  # of equal values it might round to less
            rstd = code.cast(_one(code) / code.call("sqrt", square / many + added), "float")
            middle = code.cast(mean, "float")
            rest = code.cast(mean - code.cast(middle, "double"), "float")  # what the mean loses by rounding
            for k, value in enumerate((middle, rstd, code.cast(square / less, "float"))):
                store(code, value, code.at("float", statistics, rows.channels * k), c, mask)
            by = rstd * load(code, w, c, mask)
            code.store(middle, centre, c)
            code.store(by, scale, c)
            code.store(load(code, b, c, mask) - rest * by, shift, c)

        rows.each_channel(finish)
        rows.repeat(centre, scale, shift)
    with rows.when(LAST):
        rows.each_block(_affine(code, rows, x, out, (centre, scale, shift), memory))


def _moments(
    code: Code, rows: _Blocks, x: Value, parts: Value, memory: ModuleType
) -> Callable[[Value, Value, Value], None]:
    """What writes a block's means, and its sums of deviations from them and of their squares."""

    def moments(block: Value, start: Value, stop: Value) -> None:
        of_block, deviation, square = (rows.part(parts, k, block) for k in range(3))
        rows.sum_rows(start, stop, [of_block], lambda at, i, mask: (memory.load(code, x, at, mask),))
        share = code.splat(code.value(1.0, "float") / code.cast(stop - start, "float"), LANES)
        with code.loop(0, rows.pitch, LANES) as i:
            code.store(code.load("float", of_block, i, LANES) * share, of_block, i)

        def about(at: Value, i: Value, mask: Value | None) -> tuple[Value, Value]:
            d = memory.load(code, x, at, mask) - code.load("float", of_block, i, LANES)
            return d, d * d

        rows.sum_rows(start, stop, [deviation, square], about)

    return moments


def _affine(code: Code, rows: _Blocks, x: Value, out: Value, numbers: tuple[Value, Value, Value],
            memory: ModuleType) -> Callable[[Value, Value, Value], None]:  # fmt: skip
    """Write (x - centre) scale + shift for the rows of a block. numbers: centre, scale and shift; memory: of x and out."""

    def write(at: Value, i: Value, mask: Value | None) -> None:
        m, a, b = (code.load("float", array, i, LANES) for array in numbers)
        memory.store(code, fma(code, memory.load(code, x, at, mask) - m, a, b), out, at, mask)

    return lambda block, start, stop: rows.each_row(start, stop, write)


@native("pppppppppppp" + SIZES, vectorize=False)
def _backward(code: Code, first: Value, last: Value, arguments: list[Value], half: bool) -> None:
    """g, x, grad, w, mean, rstd, g_mean, g_rstd, sums (2, channels), then sums of blocks, sums and numbers, and the sizes.

    half: g, x and grad are of bfloat16.
    """
    memory = _bfloat16 if half else _rows
    g, x, grad, w, means, rstds, g_means, g_rstds, results, parts, sums, numbers, *sizes = arguments
    rows = _Blocks(code, first, last, sizes)
    centre, scale, slope, shift = (rows.line(numbers, k) for k in range(4))
    plain, weighted = (rows.line(sums, k, "double") for k in range(2))
    with rows.when(BEGIN):
        rows.each_channel(lambda c, mask: code.store(load(code, means, c, mask), centre, c))
        rows.repeat(centre)
    _sum_gradients(code, rows, g, x, centre, parts, (plain, weighted), memory, None)
    with rows.when(JOIN):
        many, zero = code.splat(rows.count, LANES), code.splat(code.value(0.0, "double"), LANES)

        def finish(c: Value, mask: Value | None) -> None:
            r, weight = _wide(code, rstds, c, mask), _wide(code, w, c, mask)
            p, q = rows.of_channel(plain, c), rows.of_channel(weighted, c) * r
            store(code, code.cast(p, "float"), results, c, mask)
            store(code, code.cast(q, "float"), code.at("float", results, rows.channels), c, mask)
            # d rstd / d x = - rstd³ (x - mean) / count
            steep = (q * weight + _wide(code, g_rstds, c, mask) * r) * r * r / many
            less = (p * r * weight - _wide(code, g_means, c, mask)) / many
            code.store(code.cast(r * weight, "float"), scale, c)
            code.store(code.cast(zero - steep, "float"), slope, c)
            code.store(code.cast(less, "float"), shift, c)

        rows.each_channel(finish)
        rows.repeat(scale, slope, shift)
    with rows.when(LAST):

        def write(at: Value, i: Value, mask: Value | None) -> None:
            m, a, s, less = (code.load("float", array, i, LANES) for array in (centre, scale, slope, shift))
            d = memory.load(code, x, at, mask) - m
            memory.store(code, fma(code, s, d, memory.load(code, g, at, mask) * a - less), grad, at, mask)

        rows.each_block(lambda block, start, stop: rows.each_row(start, stop, write))


def _sum_gradients(code: Code, rows: _Blocks, g: Value, x: Value, centre: Value, parts: Value, sums: tuple[Value, Value],
                   memory: ModuleType, write: Callable[[Value, Value, Value, Value | None], None] | None) -> None:  # fmt: skip
    """The second step, and the beginning of the third: the sums of g and of g (x - centre) for each column.

    memory: of g and x; write: `write(g, element, column, mask)` is called for every vector.
    """

    def terms(at: Value, i: Value, mask: Value | None) -> tuple[Value, Value]:
        value = memory.load(code, g, at, mask)
        if write is not None:
            write(value, at, i, mask)
        return value, value * (memory.load(code, x, at, mask) - code.load("float", centre, i, LANES))

    with rows.when(FIRST):
        rows.each_block(
            lambda block, start, stop: rows.sum_rows(start, stop, [rows.part(parts, k, block) for k in range(2)], terms)
        )
    with rows.when(JOIN):
        for k, total in enumerate(sums):
            rows.total(
                total,
                lambda block, i, _, k=k: code.cast(code.load("float", rows.part(parts, k, block), i, LANES), "double"),
            )


@native("ppppppppp" + SIZES + "d", vectorize=False)
def _evaluated(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """x, out, mean, var, w, b, then the sums of blocks, sums and numbers, the sizes and eps."""
    x, out, means, variances, w, b, _, _, numbers, *sizes, eps = arguments
    rows = _Blocks(code, first, last, sizes)
    centre, scale, shift = (rows.line(numbers, k) for k in range(3))
    with rows.when(BEGIN):
        added = code.splat(eps, LANES)

        def finish(c: Value, mask: Value | None) -> None:
            rstd = code.cast(_one(code) / code.call("sqrt", _wide(code, variances, c, mask) + added), "float")
            code.store(load(code, means, c, mask), centre, c)
            code.store(rstd * load(code, w, c, mask), scale, c)
            code.store(load(code, b, c, mask), shift, c)

        rows.each_channel(finish)
        rows.repeat(centre, scale, shift)
    with rows.when(LAST):
        rows.each_block(_affine(code, rows, x, out, (centre, scale, shift), _rows))


@native("ppppppppp" + SIZES, vectorize=False)
def _evaluated_backward(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """g, x, grad, mean, scale, sums (2, channels), then the sums of blocks, sums and numbers, and the sizes."""
    g, x, grad, means, scales, results, parts, sums, numbers, *sizes = arguments
    rows = _Blocks(code, first, last, sizes)
    centre, scale = (rows.line(numbers, k) for k in range(2))
    totals = rows.line(sums, 0, "double"), rows.line(sums, 1, "double")
    with rows.when(BEGIN):
        rows.each_channel(lambda c, mask: code.store(load(code, means, c, mask), centre, c))
        rows.each_channel(lambda c, mask: code.store(load(code, scales, c, mask), scale, c))
        rows.repeat(centre, scale)

    def write(value: Value, at: Value, i: Value, mask: Value | None) -> None:
        store(code, value * code.load("float", scale, i, LANES), grad, at, mask)

    _sum_gradients(code, rows, g, x, centre, parts, totals, _rows, write)
    with rows.when(JOIN):

        def finish(c: Value, mask: Value | None) -> None:
            for k, total in enumerate(totals):
                value = code.cast(rows.of_channel(total, c), "float")
                store(code, value, code.at("float", results, rows.channels * k), c, mask)

        rows.each_channel(finish)
